package tail

import (
	"os"

	"golang.org/x/sys/unix"
)

// idle reports whether no process has f open for writing. It asks the kernel for a lease, which is given only then, and gives it back at once
// (fcntl(2), F_SETLEASE). The kernel gives leases to the owner of a file and to processes with CAP_LEASE, and not on each file system.
func idle(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	given := false
	err = raw.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
		if given = err == nil; given {
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	return err == nil && given
}

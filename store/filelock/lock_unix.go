//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Supported reports whether this system has locks that end with their process.
const Supported = true

func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return os.NewSyscallError("flock", err)
}

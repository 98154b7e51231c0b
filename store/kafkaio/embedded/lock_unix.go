//go:build unix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// lock locks the directory for this process until unlock is called, or returns ErrLocked at once.
func lock(dir string) (unlock func() error, err error) {
	f, err := openLock(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		} else {
			err = os.NewSyscallError("flock", err)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

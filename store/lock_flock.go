//go:build linux || darwin || freebsd

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile is locked from before anything is touched until the store is closed. Badger's own lock comes too late: what
// repairs the directory must know before that nobody uses it.
const lockFile = "floodgate.lock"

// lockDir locks dir. Closing the file unlocks it.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrLocked, dir), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock store: %w", err), f.Close())
	}
	return f, nil
}

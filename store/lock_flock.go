//go:build linux || darwin || freebsd

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile is locked before Open reads or writes any file, and until the store is closed. Badger's own lock comes too late:
// Open repairs the directory before Badger is opened, and no other process may use the directory then.
const lockFile = "floodgate.lock"

// lockDir locks dir, and writes into the lock who owns it. Closing the file unlocks it; so does the end of the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%w%s: %s", ErrLocked, readOwner(f), dir), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock store: %w", err), f.Close())
	}
	writeOwner(f)
	return f, nil
}

// maxOwner bounds what is read of a lock, in bytes.
const maxOwner = 256

// writeOwner writes which process has a lock. It is for messages only: on a full disk they do not name the process.
func writeOwner(f *os.File) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0)
	}
}

// readOwner returns which process has a lock, as a part of a sentence; "" if the lock does not say it.
func readOwner(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, maxOwner))
	owner, _, whole := strings.Cut(string(text), "\n")
	if err != nil || !whole || owner == "" {
		return ""
	}
	return fmt.Sprintf(" by %q", owner)
}

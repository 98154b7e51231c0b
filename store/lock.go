package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/509da70d/floodgate/store/filelock"
)

// lockFile is locked before Open reads or writes any file, and until the store is closed. Badger's own lock comes too late:
// Open repairs the directory before Badger is opened, and no other process may use the directory then.
const lockFile = "floodgate.lock"

// Lock locks a directory of stores for this process, until the result is closed. If another process has the lock, the error is
// ErrLocked and names that process. Two processes that use different stores of one directory need it: Open locks single stores
// only. On systems without locks that end with their process, Lock does nothing.
func Lock(dir string) (io.Closer, error) {
	f, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return io.NopCloser(nil), nil
	}
	return f, nil
}

// lockDir locks dir, and writes into the lock who owns it. Closing the file unlocks it; so does the end of the process. The file
// is nil where there are no such locks: Badger's own lock remains.
func lockDir(dir string) (*os.File, error) {
	if !filelock.Supported {
		return nil, nil
	}
	path := filepath.Join(dir, lockFile)
	f, err := filelock.Open(path)
	switch {
	case errors.Is(err, filelock.ErrLocked):
		return nil, fmt.Errorf("%w%s: %s", ErrLocked, readOwner(path), dir)
	case err != nil:
		return nil, fmt.Errorf("lock store: %w", err)
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

// LockedBy returns which process has the lock of a directory, such as "process 12 on web1", or "" if the lock does not say it, and whether
// any process has the lock. It changes nothing.
func LockedBy(dir string) (owner string, locked bool) {
	path := filepath.Join(dir, lockFile)
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	f, err := filelock.Open(path)
	if err != nil {
		return ownerIn(path), errors.Is(err, filelock.ErrLocked)
	}
	_ = f.Close()
	return "", false
}

// readOwner returns which process has a lock, as a part of a sentence; "" if the lock does not say it.
func readOwner(path string) string {
	if owner := ownerIn(path); owner != "" {
		return fmt.Sprintf(" by %q", owner)
	}
	return ""
}

func ownerIn(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxOwner))
	owner, _, whole := strings.Cut(string(text), "\n")
	if err != nil || !whole {
		return ""
	}
	return owner
}

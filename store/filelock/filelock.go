// Package filelock locks files against other processes. The operating system ends a lock when its process ends, for whatever reason.
package filelock

import (
	"errors"
	"fmt"
	"os"
)

// ErrLocked says that another process has locked the file. Test with errors.Is.
var ErrLocked = errors.New("another process has locked it")

// Open opens a file and locks it, or returns ErrLocked at once. It creates the file if it is missing; only its owner may read it. Closing
// the file unlocks it. Where Supported is false, Open locks nothing.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

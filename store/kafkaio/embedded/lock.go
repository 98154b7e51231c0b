package embedded

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrLocked says that another broker serves the directory. Test with errors.Is.
var ErrLocked = errors.New("directory is served by another broker")

// openLock opens the lock file of dir, and creates the directory and the file if they are missing. Only their owner may
// read them, because requests name clients. The file stays when the broker has ended. Only the lock on it counts, which the
// operating system releases when the process ends, for whatever reason.
func openLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, "floodgate.lock"), os.O_CREATE|os.O_RDWR, 0o600)
}

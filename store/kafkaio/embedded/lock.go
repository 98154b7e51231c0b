package embedded

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrLocked says that another broker serves the directory. Test with errors.Is.
var ErrLocked = errors.New("directory is served by another broker")

// openLock opens the lock file of dir, and creates both where missing. The file stays when the broker is gone: what counts
// is the lock on it, which the operating system drops with the process however it ends.
func openLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, "floodgate.lock"), os.O_CREATE|os.O_RDWR, 0o600)
}

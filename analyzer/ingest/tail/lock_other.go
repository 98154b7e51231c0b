//go:build !(linux || darwin || freebsd)

package tail

import (
	"fmt"
	"os"
	"path/filepath"
)

// lock only opens the file: this system has no locks that end with their process.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "ingest.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return f, nil
}

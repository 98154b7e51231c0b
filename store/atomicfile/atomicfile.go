// Package atomicfile writes small files so that a crash leaves the old content or the new one.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write replaces the content of a file by data, or makes the file; only its owner may read it. A reader sees the old content or the new
// one, also after a crash of the machine. Calls for one path must come one after the other: each uses path.new for a moment.
func Write(path string, data []byte) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// othersPermissions is the permission bits of all users except the owner.
const othersPermissions = 0o077

// keepPrivate takes all permissions on dir and its files from all users except their owner: rows contain client addresses and
// API keys. Badger creates its files with mode 0666 minus the umask, which belongs to the whole process. The permissions of
// the directory protect files that Badger creates later.
func keepPrivate(dir string) error {
	if err := removeOthers(dir); err != nil { // first, so that no other user opens a file meanwhile
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list store: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.Type().IsRegular() { // a link may lead out of the directory
			errs = append(errs, removeOthers(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// removeOthers takes the permissions of other users from one file or directory, if they have any.
func removeOthers(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // Badger has deleted it
	}
	if err != nil {
		return fmt.Errorf("look at store: %w", err)
	}
	if info.Mode()&othersPermissions == 0 {
		return nil
	}
	if err := os.Chmod(path, info.Mode()&^othersPermissions); err != nil {
		return fmt.Errorf("keep store private: %w", err)
	}
	return nil
}

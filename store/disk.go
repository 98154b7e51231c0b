package store

import (
	"io/fs"
	"math"
	"path/filepath"
)

// Disk returns how many bytes the files under dir take on disk, those of stores that were moved aside too, and how many bytes more the
// process may write there: math.MaxInt64 where the system does not say. Files that come or go meanwhile are counted or not. The error
// says that dir cannot be looked at.
func Disk(dir string) (used, free int64, err error) {
	if free, err = freeBytes(dir); err != nil {
		return 0, 0, err
	}
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // it returns nil
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // it went while we looked
		}
		if info, err := d.Info(); err == nil {
			used += min(allocated(info), math.MaxInt64-used)
		}
		return nil
	})
	return used, free, nil
}

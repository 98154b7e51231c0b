package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxQuarantined is how many broken stores of one directory are kept for analysis. Older ones are deleted, so that a disk that
// breaks stores repeatedly does not also become full.
const maxQuarantined = 3

// brokenSuffix goes between the name of a store and the time at which it was moved aside.
const brokenSuffix = ".broken-"

// Quarantine moves the store in dir aside, so that Open makes a new one there. It returns the new path: a sibling of dir named
// after the time. It keeps the newest three of them and deletes older ones. It returns ErrLocked if the store is in use.
func Quarantine(dir string, at time.Time) (moved string, err error) {
	dir = filepath.Clean(dir)
	lock, err := lockDir(dir)
	if err != nil {
		return "", fmt.Errorf("quarantine: %w", err)
	}
	if lock != nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	moved = dir + brokenSuffix + at.UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(dir, moved); err != nil {
		return "", fmt.Errorf("quarantine: %w", err)
	}
	return moved, prune(dir)
}

// prune deletes all but the newest maxQuarantined of the stores that were moved aside from dir.
func prune(dir string) error {
	siblings, err := os.ReadDir(filepath.Dir(dir)) // sorted; the names sort by time
	if err != nil {
		return fmt.Errorf("list quarantine: %w", err)
	}
	siblings = slices.DeleteFunc(siblings, func(f os.DirEntry) bool {
		return !strings.HasPrefix(f.Name(), filepath.Base(dir)+brokenSuffix)
	})
	for _, f := range siblings[:max(0, len(siblings)-maxQuarantined)] {
		if err := os.RemoveAll(filepath.Join(filepath.Dir(dir), f.Name())); err != nil {
			return fmt.Errorf("delete old quarantine: %w", err)
		}
	}
	return nil
}

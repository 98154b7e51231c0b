package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// disk is where a Log is. Tests have one that loses what was not synced.
type disk interface {
	makeDir(path string) error
	list(dir string) (names []string, err error)
	open(path string, create bool) (file, error)
	remove(path string) error
	rename(from, to string) error
	syncDir(dir string) error // makes the names in it durable
}

// file is an open file.
type file interface {
	ReadAt(b []byte, at int64) (int, error)
	WriteAt(b []byte, at int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
	info() (size int64, changed time.Time, err error)
}

// osDisk is that of the operating system.
type osDisk struct{}

type osFile struct{ *os.File }

func (f osFile) info() (int64, time.Time, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, time.Time{}, err
	}
	return i.Size(), i.ModTime(), nil
}

func (osDisk) makeDir(path string) error { return os.MkdirAll(path, 0o700) }

func (osDisk) list(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (osDisk) open(path string, create bool) (file, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) remove(path string) error { return os.Remove(path) }

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readFile returns what a file holds, or nil if there is none.
func readFile(d disk, path string) ([]byte, error) {
	f, err := d.open(path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	size, _, err := f.info()
	data := make([]byte, size)
	if err == nil && size > 0 {
		_, err = f.ReadAt(data, 0)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// replaceFile makes a file with this content durable, and only then gives it the name.
func replaceFile(d disk, path string, data []byte) error {
	temporary := path + ".new"
	if err := d.remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // after a crash both names may be those of one file
		return err
	}
	f, err := d.open(temporary, true)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.rename(temporary, path); err != nil {
		return err
	}
	return d.syncDir(filepath.Dir(path))
}

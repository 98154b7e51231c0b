package filelog

import (
	"errors"
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
	syncDir(dir string) error
	read(path string) ([]byte, error) // nil if there is no such file
	replace(path string, data []byte) error
}

// file is an open segment.
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

func (osDisk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osDisk) read(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// replace writes a new file, and gives it the name when it is on disk.
func (d osDisk) replace(path string, data []byte) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
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
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return d.syncDir(filepath.Dir(path))
}

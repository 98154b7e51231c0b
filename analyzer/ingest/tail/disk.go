package tail

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
)

// file is an open log.
type file interface {
	io.ReaderAt
	io.Closer
	Stat() (os.FileInfo, error)
}

// disk is where logs are. Tests have a model of one.
type disk interface {
	open(path string) (file, error)
	stat(path string) (os.FileInfo, error)
	list(dir string) ([]entry, error)
	real(path string) string // without symbolic links; "" if there is no such file
	// same reports whether two files that both exist are one. It says nothing about files of different times: numbers of files come back.
	same(a, b os.FileInfo) bool
	// idle reports whether nobody has the file open for writing; false if that cannot be known.
	idle(f file) bool
}

// entry is a name in a directory.
type entry struct {
	name string
	dir  bool
}

// osDisk is that of the operating system.
type osDisk struct{}

func (osDisk) open(path string) (file, error)        { return os.Open(path) }
func (osDisk) stat(path string) (os.FileInfo, error) { return os.Stat(path) }

func (osDisk) list(dir string) (entries []entry, err error) {
	found, err := os.ReadDir(dir)
	for _, e := range found {
		entries = append(entries, entry{e.Name(), e.IsDir()})
	}
	return entries, err
}

func (osDisk) real(path string) string {
	p, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return p
}

func (osDisk) same(a, b os.FileInfo) bool { return os.SameFile(a, b) }

func (osDisk) idle(f file) bool {
	o, ok := f.(*os.File)
	return ok && idle(o)
}

// onDisk returns d, or the operating system's.
func onDisk(d disk) disk { return cmp.Or[disk](d, osDisk{}) }

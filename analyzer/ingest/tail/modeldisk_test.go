package tail

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// modelDisk is a file system in memory. It gives out the number of a deleted file again at once, and its device number changes when it is
// mounted anew.
type modelDisk struct {
	now    func() time.Time
	step   func() // called before each call of the follower; may be nil
	names  map[string]*modelFile
	links  map[string]string
	used   map[int]bool // numbers of files
	device int
	closed bool // nothing can be opened or listed: the file system is not mounted
}

// modelFile is a file under any number of names.
type modelFile struct {
	disk     *modelDisk
	number   int
	data     []byte
	modified time.Time
	names    int
	opened   int
	writers  int
	cut      int    // how often it was truncated
	plain    []byte // of a compressed file
}

func newModelDisk(now func() time.Time) *modelDisk {
	return &modelDisk{now: now, names: make(map[string]*modelFile), links: make(map[string]string), used: make(map[int]bool)}
}

// modelInfo is what a handle or a name says of a file.
type modelInfo struct {
	name           string
	size           int64
	modified       time.Time
	number, device int
}

func (i modelInfo) Name() string       { return i.name }
func (i modelInfo) Size() int64        { return i.size }
func (i modelInfo) Mode() fs.FileMode  { return 0o600 }
func (i modelInfo) ModTime() time.Time { return i.modified }
func (i modelInfo) IsDir() bool        { return false }
func (i modelInfo) Sys() any           { return nil }

// handle is an open file.
type handle struct {
	f      *modelFile
	device int
	writes bool
}

func (d *modelDisk) before() {
	if d.step != nil {
		d.step()
	}
}

func (d *modelDisk) follow(p string) string {
	for to, ok := d.links[p]; ok; to, ok = d.links[p] {
		p = to
	}
	return p
}

func (d *modelDisk) file(p string) (*modelFile, error) {
	f := d.names[d.follow(p)]
	if f == nil || d.closed {
		return nil, &fs.PathError{Op: "open", Path: p, Err: os.ErrNotExist}
	}
	return f, nil
}

func (d *modelDisk) open(p string) (file, error) {
	d.before()
	f, err := d.file(p)
	if err != nil {
		return nil, err
	}
	return f.open(false), nil
}

func (d *modelDisk) stat(p string) (os.FileInfo, error) {
	d.before()
	f, err := d.file(p)
	if err != nil && p == path.Dir(logPath) && !d.closed {
		return modelInfo{}, nil
	}
	if err != nil {
		return nil, err
	}
	return f.info(d.device), nil
}

func (d *modelDisk) list(dir string) (entries []entry, err error) {
	d.before()
	if d.closed {
		return nil, os.ErrNotExist
	}
	seen := make(map[string]bool)
	add := func(p string) {
		rest, ok := strings.CutPrefix(p, dir+"/")
		if name, _, below := strings.Cut(rest, "/"); ok && !seen[name] {
			seen[name] = true
			entries = append(entries, entry{name, below})
		}
	}
	for p := range d.names {
		add(p)
	}
	for p := range d.links {
		add(p)
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}

func (d *modelDisk) real(p string) string {
	if _, err := d.file(p); err != nil {
		return ""
	}
	return d.follow(p)
}

func (d *modelDisk) same(a, b os.FileInfo) bool {
	x, y := a.(modelInfo), b.(modelInfo)
	return x.number == y.number && x.device == y.device
}

func (d *modelDisk) idle(f file) bool {
	h, ok := f.(*handle)
	return ok && h.f.writers == 0
}

// What servers and rotators do.

func (d *modelDisk) create(p string) *handle {
	f := d.names[p]
	if f == nil {
		f = &modelFile{disk: d, modified: d.now()}
		for f.number = 1; d.used[f.number]; f.number++ {
		}
		d.used[f.number] = true
		f.names = 1
		d.names[p] = f
	}
	return f.open(true)
}

func (d *modelDisk) rename(from, to string) {
	f := d.names[from]
	d.remove(to)
	d.names[to] = f
	delete(d.names, from)
}

func (d *modelDisk) remove(p string) {
	if f := d.names[p]; f != nil {
		delete(d.names, p)
		f.names--
		f.free()
	}
}

// copy makes a copy as cp does, or with the times of the original.
func (d *modelDisk) copy(from, to string, times bool) { inOrder(d.copying(from, to, times)) }

// gzip compresses a file as gzip does.
func (d *modelDisk) gzip(p string) { inOrder(d.zipping(p)) }

func inOrder(steps []func()) {
	for _, step := range steps {
		step()
	}
}

// copying returns the steps of copy.
func (d *modelDisk) copying(from, to string, times bool) []func() {
	var f *modelFile
	var h *handle
	var text []byte
	return []func(){
		func() { d.remove(to); f, h = d.names[from], d.create(to) },
		func() { text = f.data; h.write(text[:len(text)/2]) },
		func() { h.write(text[len(text)/2:]) },
		func() {
			if times {
				h.f.modified = f.modified
			}
			h.Close()
		},
	}
}

// zipping returns the steps of gzip. Nobody writes to the file meanwhile.
func (d *modelDisk) zipping(p string) []func() {
	var f *modelFile
	var h *handle
	var b bytes.Buffer
	return []func(){
		func() {
			f = d.names[p]
			z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
			z.Write(f.data)
			z.Close()
			h = d.create(p + ".gz")
			h.f.plain = f.data
		},
		func() { h.write(b.Next(b.Len() / 2)) },
		func() { h.write(b.Bytes()) },
		func() { h.f.modified = f.modified; h.Close() },
		func() { d.remove(p) },
	}
}

func (f *modelFile) open(writes bool) *handle {
	f.opened++
	if writes {
		f.writers++
	}
	return &handle{f, f.disk.device, writes}
}

// gone reports whether nobody can read the file any more.
func (f *modelFile) gone() bool { return f.names == 0 && f.opened == f.writers }

func (f *modelFile) text() []byte {
	if f.plain != nil {
		return f.plain
	}
	return f.data
}

func (f *modelFile) free() {
	if f.names == 0 && f.opened == 0 {
		delete(f.disk.used, f.number)
	}
}

func (f *modelFile) info(device int) modelInfo {
	return modelInfo{"", int64(len(f.data)), f.modified, f.number, device}
}

func (f *modelFile) truncate(n int) {
	f.data, f.modified = f.data[:n:n], f.disk.now()
	f.cut++
}

func (h *handle) write(b []byte) { h.f.data, h.f.modified = append(h.f.data, b...), h.f.disk.now() }

func (h *handle) ReadAt(b []byte, offset int64) (int, error) {
	h.f.disk.before()
	if offset >= int64(len(h.f.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.f.data[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) Stat() (os.FileInfo, error) {
	h.f.disk.before()
	return h.f.info(h.device), nil
}

func (h *handle) Close() error {
	h.f.opened--
	if h.writes {
		h.f.writers--
	}
	h.f.free()
	return nil
}

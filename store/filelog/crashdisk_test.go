package filelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// crashDisk is a disk in memory that loses power. What was not synced is then lost, kept, or kept in part: each page of a file is one of the
// versions that it had since the last sync, whichever the others are, and so is the length of the file, the name of each file, and that of each
// directory. So truncations, removals and the two halves of a rename may come undone, too. A sync that fails leaves what was written in memory, as
// Linux does: reads see it, and the next sync takes it for written.
//
// It is stricter than vfs.NewCrashableMem of pebble, whose files cannot be truncated, and whose failed syncs may be repeated.
//
// One goroutine may use it at a time.
type crashDisk struct {
	random *rand.Rand
	page   int
	root   *node
	step   func(what string) error // is called before each change; nil: nothing happens
	fault  func(what string) error // what a change returns after it was made in part; nil: none fails
	dead   bool                    // the process is gone, and changes nothing any more
	opened int                     // files that are open
	read   int                     // bytes that were read from files
}

// node is a file or a directory.
type node struct {
	names map[string]*name // of a directory; nil: it is a file

	data     []byte       // as a reader sees it
	disk     []byte       // as it would be if all that is dirty were written: with what a failed sync has lost
	dirty    map[int]bool // pages of data that were written since the last sync
	versions [][]byte     // that disk has had since the last sync; the first is the one that was synced
}

// name is what a name in a directory stands for.
type name struct {
	now      *node   // nil: nothing
	versions []*node // since the last sync of the directory
}

func newCrashDisk(random *rand.Rand) *crashDisk {
	return &crashDisk{random: random, page: []int{64, 512, 4096}[random.IntN(3)], root: &node{names: map[string]*name{}}}
}

var errPower = errors.New("the power is off")

// change is called before each change.
func (d *crashDisk) change(what string) error {
	if d.dead {
		return errPower
	}
	if d.step != nil {
		return d.step(what)
	}
	return nil
}

func (d *crashDisk) failed(what string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(what)
}

// lose is what a loss of power does. The next Log finds what is left.
func (d *crashDisk) lose() { d.loseBelow(d.root) }

func (d *crashDisk) loseBelow(n *node) {
	if n.names == nil {
		n.disk = d.mixture(n.versions)
		n.data, n.versions, n.dirty = slices.Clone(n.disk), [][]byte{n.disk}, nil
		return
	}
	for _, key := range slices.Sorted(maps.Keys(n.names)) {
		e := n.names[key]
		e.now = e.versions[d.random.IntN(len(e.versions))]
		e.versions = []*node{e.now}
	}
	for _, key := range slices.Sorted(maps.Keys(n.names)) {
		if e := n.names[key]; e.now == nil {
			delete(n.names, key)
		} else {
			d.loseBelow(e.now)
		}
	}
}

// mixture is a file of which each page comes from one of the versions.
func (d *crashDisk) mixture(versions [][]byte) []byte {
	b := make([]byte, len(versions[d.random.IntN(len(versions))]))
	for at := 0; at < len(b); at += d.page {
		if v := versions[d.random.IntN(len(versions))]; at < len(v) {
			copy(b[at:min(at+d.page, len(b))], v[at:])
		}
	}
	return b
}

// dir returns the directory of a path.
func (d *crashDisk) dir(path string) (*node, error) {
	n := d.root
	for part := range strings.SplitSeq(strings.Trim(filepath.ToSlash(path), "/"), "/") {
		if part == "" {
			continue
		}
		e := n.names[part]
		if e == nil || e.now == nil || e.now.names == nil {
			return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
		}
		n = e.now
	}
	return n, nil
}

// set makes a name stand for a node, or for nothing.
func (n *node) set(key string, to *node) {
	e := n.names[key]
	if e == nil {
		e = &name{versions: []*node{nil}}
		n.names[key] = e
	}
	e.now = to
	e.versions = append(e.versions, to)
}

func (d *crashDisk) makeDir(path string) error {
	if _, err := d.dir(path); err == nil {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := d.makeDir(parent); err != nil {
			return err
		}
	}
	if err := d.change("make " + path); err != nil {
		return err
	}
	parent, err := d.dir(filepath.Dir(path))
	if err == nil {
		parent.set(filepath.Base(path), &node{names: map[string]*name{}})
	}
	return err
}

func (d *crashDisk) list(path string) (names []string, err error) {
	n, err := d.dir(path)
	if err != nil {
		return nil, err
	}
	for key, e := range n.names {
		if e.now != nil {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d *crashDisk) open(path string, create bool) (file, error) {
	parent, err := d.dir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if e := parent.names[filepath.Base(path)]; e != nil && e.now != nil {
		d.opened++
		return &crashFile{d: d, n: e.now, path: path}, nil
	}
	if !create {
		return nil, fmt.Errorf("open %s: %w", path, fs.ErrNotExist)
	}
	if err := d.change("create " + path); err != nil {
		return nil, err
	}
	if err := d.failed("create " + path); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	n := &node{versions: [][]byte{nil}}
	parent.set(filepath.Base(path), n)
	d.opened++
	return &crashFile{d: d, n: n, path: path}, nil
}

func (d *crashDisk) remove(path string) error {
	parent, err := d.dir(filepath.Dir(path))
	if err != nil {
		return err
	}
	if e := parent.names[filepath.Base(path)]; e == nil || e.now == nil {
		return fmt.Errorf("remove %s: %w", path, fs.ErrNotExist)
	}
	if err := d.change("remove " + path); err != nil {
		return err
	}
	if err := d.failed("remove " + path); err != nil {
		return err
	}
	parent.set(filepath.Base(path), nil)
	return nil
}

func (d *crashDisk) rename(from, to string) error {
	if err := d.change("rename " + from); err != nil {
		return err
	}
	parent, err := d.dir(filepath.Dir(from))
	if err != nil {
		return err
	}
	parent.set(filepath.Base(to), parent.names[filepath.Base(from)].now)
	parent.set(filepath.Base(from), nil)
	return nil
}

func (d *crashDisk) syncDir(path string) error {
	if err := d.change("sync " + path); err != nil {
		return err
	}
	if err := d.failed("sync " + path); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	n, err := d.dir(path)
	if err != nil {
		return err
	}
	for _, e := range n.names {
		e.versions = []*node{e.now}
	}
	return nil
}

// crashFile is an open file.
type crashFile struct {
	d      *crashDisk
	n      *node
	path   string
	closed bool
}

func (f *crashFile) ReadAt(b []byte, at int64) (int, error) {
	if f.closed {
		return 0, fs.ErrClosed
	}
	if at >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[at:])
	f.d.read += n
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *crashFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.d.change("write " + f.path); err != nil {
		if f.d.random.IntN(2) == 0 { // the process was killed when a part was written
			f.write(b[:f.d.random.IntN(len(b)+1)], at)
		}
		return 0, err
	}
	if err := f.d.failed("write " + f.path); err != nil {
		n := f.d.random.IntN(len(b))
		f.write(b[:n], at)
		return n, fmt.Errorf("write %s: %w", f.path, err)
	}
	f.write(b, at)
	return len(b), nil
}

func (f *crashFile) write(b []byte, at int64) {
	if len(b) == 0 {
		return
	}
	f.resize(max(len(f.n.data), int(at)+len(b)))
	copy(f.n.data[at:], b)
	f.touch(int(at), int(at)+len(b))
}

// resize changes the length of what readers see.
func (f *crashFile) resize(size int) {
	f.n.data = slices.Clone(f.n.data[:min(size, len(f.n.data))])
	f.n.data = append(f.n.data, make([]byte, size-len(f.n.data))...)
}

// touch makes the pages from a byte to another dirty, and adds a version to what the disk may have.
func (f *crashFile) touch(from, to int) {
	n, page := f.n, f.d.page
	if n.dirty == nil {
		n.dirty = make(map[int]bool)
	}
	for p := from / page; p*page < to; p++ {
		n.dirty[p] = true
	}
	disk := make([]byte, len(n.data))
	copy(disk, n.disk)
	for p := range n.dirty {
		if at := p * page; at < len(disk) {
			copy(disk[at:min(at+page, len(disk))], n.data[at:])
		}
	}
	n.disk = disk
	n.versions = append(n.versions, disk)
}

func (f *crashFile) Truncate(size int64) error {
	if err := f.d.change("truncate " + f.path); err != nil {
		return err
	}
	f.resize(int(size))
	f.touch(int(size), int(size)+1)
	return nil
}

func (f *crashFile) Sync() error {
	if err := f.d.change("sync " + f.path); err != nil {
		return err
	}
	if err := f.d.failed("sync " + f.path); err != nil {
		f.n.disk = f.d.mixture(f.n.versions)
		f.n.versions, f.n.dirty = [][]byte{f.n.disk}, nil
		return fmt.Errorf("sync %s: %w", f.path, err)
	}
	f.n.versions, f.n.dirty = [][]byte{f.n.disk}, nil
	return nil
}

func (f *crashFile) Close() error {
	f.d.opened--
	f.closed = true
	return nil
}

func (f *crashFile) info() (int64, time.Time, error) { return int64(len(f.n.data)), time.Time{}, nil }

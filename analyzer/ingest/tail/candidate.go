package tail

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// candidate is a file that no reader has, and that may be, or have been, the log of a path.
type candidate struct {
	content

	path    string
	file    file
	info    os.FileInfo
	current bool // it is at the path
	packed  bool
	known   bool     // it needed no look before, and has not changed since
	own     bool     // it is a log of its own
	began   *logFile // the log whose lines this one begins with: they do not count again
	taken   bool     // a reader has it
}

// isRotated reports whether a file called name may be a rotated log of one called base, by the habits of logrotate and others:
// access.log.1, access.log-20240102, access.log.2.gz, access-20240102.log, access.1.log.
func isRotated(base, name string) bool {
	if rest, ok := strings.CutPrefix(name, base); ok {
		return rest != "" && strings.ContainsRune(".-_", rune(rest[0]))
	}
	if is, _ := packing(name); is {
		name = strings.TrimSuffix(name, filepath.Ext(name))
	}
	ending := filepath.Ext(base)
	stem := strings.TrimSuffix(base, ending)
	middle, ok := strings.CutPrefix(name, stem)
	middle, also := strings.CutSuffix(middle, ending)
	return ok && also && ending != "" && stem != "" && len(middle) > 1 && strings.ContainsRune(".-_", rune(middle[0])) &&
		strings.Trim(middle, "0123456789.-_T") == ""
}

// unfinished reports whether a name is that of a file that is being made.
func unfinished(name string) bool {
	return slices.Contains([]string{".lock", ".new", ".tmp", ".swp", ".part"}, filepath.Ext(name))
}

// maxBelow is how many directories below that of a log are looked at.
const maxBelow = 64

// rotatedPaths returns the paths of files that may have been the log of the path, apart from the one there: in its directory, and one
// directory further down.
func (f *Follower) rotatedPaths() (paths []string) {
	add := func(dir, base string, also bool) (below []string) {
		entries, err := f.disk.list(dir)
		if err != nil {
			return nil // whoever misses a log says so
		}
		for _, e := range entries {
			switch path := filepath.Join(dir, e.name); {
			case e.dir:
				below = append(below, path)
			case unfinished(e.name) || path == f.Path || f.Positions.follows(path):
			case isRotated(base, e.name) || also && e.name == base:
				paths = append(paths, path)
			}
		}
		return below
	}
	at := []string{f.Path}
	if target := f.disk.real(f.Path); target != "" && target != f.Path {
		at = append(at, target)
	}
	for _, path := range at {
		below := add(filepath.Dir(path), filepath.Base(path), false)
		for _, dir := range below[:min(len(below), maxBelow)] {
			add(dir, filepath.Base(path), true)
		}
	}
	for _, l := range f.Positions.of(f.Path) {
		if !l.Finished && string(l.Name) != f.Path {
			paths = append(paths, string(l.Name))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// candidates opens the files that no reader has: the one at the path last, and the others in the order of their last changes. It marks the
// readers whose files it meets. all says whether to open also those that needed no look before.
func (s *scan) candidates(all bool) {
	for _, r := range s.f.readers {
		r.named = false
	}
	s.at = s.candidate(s.f.Path, true) // first: what was renamed before has another name in the directory
	paths := s.f.rotatedPaths()
	for _, path := range paths {
		if c := s.candidate(path, all); c != nil {
			s.found = append(s.found, c)
		}
	}
	s.moving = s.f.renamed.Load() || !slices.Equal(paths, s.f.rotatedPaths()) // a log that was renamed meanwhile may have been missed
	s.f.confirm = s.moving
	slices.SortStableFunc(s.found, func(a, b *candidate) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	if s.at != nil {
		s.at.current = true
		s.found = append(s.found, s.at)
	}
	s.f.settled = s.settled
}

// candidate opens a file, unless a reader has it already, or another candidate, or it needs no look.
func (s *scan) candidate(path string, all bool) *candidate {
	f := s.f
	info, err := f.disk.stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	for _, r := range f.readers {
		if r.file != nil && f.disk.same(onlyFile(r.id), info) {
			r.named = true
			r.rename(f.realName(path))
			return nil
		}
	}
	for _, c := range append(s.found, s.at) {
		if c != nil && f.disk.same(onlyFile(c.info), info) {
			return nil
		}
	}
	known := f.settled.has(f.disk, info)
	if known {
		s.settled.add(info)
	}
	packed, readable := packing(path)
	if path == f.Path {
		packed, known = false, false
	}
	if known && !all || info.Size() == 0 && path != f.Path || packed && info.ModTime().Before(s.since) {
		return nil
	}
	c := &candidate{path: path, packed: packed, known: known}
	if err := c.open(f, readable); err != nil {
		s.unopened(c, info, err)
		return nil
	}
	return c
}

func (c *candidate) open(f *Follower, readable bool) error {
	file, err := f.disk.open(c.path)
	if err == nil && c.packed && readable {
		plain := file
		if file, err = openPacked(plain); err != nil {
			err = errors.Join(err, plain.Close())
		}
	}
	if err != nil {
		return err
	}
	if c.packed && !readable {
		return errors.Join(errUnreadable, file.Close())
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	c.file, c.info, c.content = file, info, content{file, info.Size()}
	return nil
}

var errUnreadable = errors.New("is compressed in a way that is not read here: want gzip, bzip2, xz or zstd")

// partly is how long a compressed file that is not whole is waited for after its last change.
const partly = time.Minute

// unopened takes note of a file that cannot be read. One that may hold lines that were not read is waited for if it is being written, and
// otherwise reported.
func (s *scan) unopened(c *candidate, info os.FileInfo, err error) {
	switch {
	case errors.Is(err, os.ErrNotExist), c.path == s.f.Path, info.ModTime().Before(s.f.newest):
	case c.packed && errors.Is(err, io.ErrUnexpectedEOF) && s.f.growing(c.path, info, s.now):
		s.f.waiting = true
	case !c.known:
		s.f.Logger.Error("cannot read a rotated log: lines in it may be missing", "path", c.path, "error", err)
		s.f.report(0)
		s.settled.add(info)
	}
}

// unchanging are files that need no look unless they change, under whatever names: by their sizes and last changes.
type unchanging map[version][]os.FileInfo

type version struct{ size, modified int64 }

func versionOf(info os.FileInfo) version { return version{info.Size(), info.ModTime().UnixNano()} }

func (u unchanging) add(info os.FileInfo) {
	v := versionOf(info)
	u[v] = append(u[v], info)
}

func (u unchanging) has(d disk, info os.FileInfo) bool {
	return slices.ContainsFunc(u[versionOf(info)], func(old os.FileInfo) bool { return d.same(old, info) })
}

package tail

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxFirst is how many bytes of the first line are part of an identity.
const maxFirst = 4 << 10

// identity identifies a file, under any name.
type identity struct {
	Device, Inode uint64
	First         string
	FirstLen      int64
	Size          int64
	Modified      time.Time
}

// identify returns the identity of file; whole says whether the file has its first line to the end, or maxFirst bytes of
// it.
func identify(file *os.File) (id identity, whole bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return id, false, err
	}
	if info.IsDir() {
		return id, false, fmt.Errorf("%s is a directory", file.Name())
	}
	head := make([]byte, maxFirst)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return id, false, err
	}
	if i := bytes.IndexByte(head[:n], '\n'); i >= 0 {
		n, whole = i+1, true
	}
	id = identity{First: digest(head[:n]), FirstLen: int64(n), Size: info.Size(), Modified: info.ModTime()}
	id.Device, id.Inode = inode(info)
	return id, whole || n == maxFirst, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// begins reports whether the first line of file is that of l.
func (l *logFile) begins(file *os.File) bool {
	head := make([]byte, min(l.FirstLen, maxFirst))
	n, err := file.ReadAt(head, 0)
	return n == len(head) && (err == nil || errors.Is(err, io.EOF)) && digest(head) == l.First
}

// matches reports whether file, which has the identity id, is the log l and not a file that replaced it.
func (l *logFile) matches(file *os.File, id identity) bool {
	return l.Device == id.Device && l.Inode == id.Inode && id.Size >= l.Offset && l.begins(file)
}

// candidate is a file that may be, or have been, the log of a path.
type candidate struct {
	path string
	file *os.File
	id   identity
}

// candidates are the files of a path: the one at the path and those whose names begin with it.
type candidates []candidate

// siblings opens the files of a path, the oldest first.
func siblings(path string) (candidates, error) {
	names, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found candidates
	for _, e := range names {
		rest, ours := strings.CutPrefix(e.Name(), filepath.Base(path))
		if !ours || rest != "" && rest[0] != '.' && rest[0] != '-' || packed(rest) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(filepath.Dir(path), e.Name())
		file, err := os.Open(name)
		if err != nil {
			continue // deleted since, or not readable for this user
		}
		id, _, err := identify(file)
		if err != nil || id.FirstLen == 0 {
			_ = file.Close()
			continue
		}
		found = append(found, candidate{name, file, id})
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.id.Modified.Compare(b.id.Modified) })
	return found, nil
}

// packed reports whether a name has the ending of a compressed file.
func packed(name string) bool {
	return slices.Contains([]string{".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".lock", ".new"}, filepath.Ext(name))
}

func (c candidates) close() {
	for i := range c {
		_ = c[i].file.Close()
	}
}

// find returns the file of l, or nil.
func (c candidates) find(l *logFile) *candidate {
	for i := range c {
		if l.matches(c[i].file, c[i].id) {
			return &c[i]
		}
	}
	return nil
}

// newer returns the files that were modified after the newest of the known logs and are not known. A file with the first
// line of a known log is a copy of it.
func (c candidates) newer(path string, known []*logFile) []candidate {
	var last time.Time
	for _, l := range known {
		if l.Modified.After(last) {
			last = l.Modified
		}
	}
	var out []candidate
	for _, one := range c {
		copied := slices.ContainsFunc(known, func(l *logFile) bool { return l.begins(one.file) })
		if len(known) > 0 && one.path != path && !copied && !one.id.Modified.Before(last) {
			out = append(out, one)
		}
	}
	return out
}

// log returns the log of a file with this identity: a known log, or a new one.
func (f *Follower) log(file *os.File, id identity) *logFile {
	same := 0
	for _, l := range f.Positions.of(f.Path) {
		if l.Device != id.Device || l.Inode != id.Inode || !l.begins(file) {
			continue
		}
		if l.Offset <= id.Size {
			f.Positions.change(func() { l.Finished = false })
			return l
		}
		same++ // it shrank and has the same first line
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "floodgate ingest 1\x00file\x00%s\x00%s\x00%d\x00%d\x00%s\x00%d",
		f.Host, f.Path, id.Device, id.Inode, id.First, same))
	l := &logFile{
		Path: f.Path, Device: id.Device, Inode: id.Inode, First: id.First, FirstLen: id.FirstLen,
		Source: sourceID(sum[:16]), Modified: id.Modified,
	}
	f.Positions.add(l)
	return l
}

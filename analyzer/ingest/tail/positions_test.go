package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

func open(t *testing.T, dir string) *Positions {
	t.Helper()
	p, err := OpenPositions(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPositionsComeBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "as", "needed")
	p := open(t, dir)
	want := logFile{
		Path: "/var/log/a", Device: 1, Inode: 1<<63 + 5, First: "abc", FirstLen: 17, Source: sourceID{1, 2, 255}, Offset: 42,
		Modified: time.Unix(1, 2).UTC(), Finished: true,
	}
	l := want
	p.add(&l)
	p.add(&logFile{Path: "/var/log/b"})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = open(t, dir)
	got := p.of("/var/log/a")
	if len(got) != 1 || *got[0] != want || len(p.of("/var/log/b")) != 1 || len(p.of("/none")) != 0 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("got %v, %v, want the positions and the lock", left, err)
	}
}

// TestPositionsOfAnyPath: a path need not be UTF-8. What JSON can't hold comes back nevertheless, or its log would be
// counted anew after each restart.
func TestPositionsOfAnyPath(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir)
	paths := []string{"/var/log/a\xff.log", "/var/log/a\xfe.log", "/var/log/a\ufffd.log", "/var/log/\x1b\n\u202e.log"}
	for i, path := range paths {
		p.add(&logFile{Path: path, Offset: int64(i)})
	}
	for range 2 { // also of positions that were read from a file
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		p = open(t, dir)
		for i, path := range paths {
			if got := p.of(path); len(got) != 1 || got[0].Offset != int64(i) {
				t.Errorf("%q: got %+v, want it at %d", path, got, i)
			}
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTwoProcessesDoNotShare(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir)
	if _, err := OpenPositions(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want %v", err, ErrLocked)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Error(err)
	}
}

func TestDamagedPositionsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"cut":             `{"version":1,"logs":[{"path":"/a"`,
		"other version":   `{"version":2,"logs":[]}`,
		"no version":      `{"logs":[]}`,
		"negative":        `{"version":1,"logs":[{"path":"/a","offset":-1,"source":"00000000000000000000000000000000"}]}`,
		"no base64":       `{"version":1,"logs":[{"path":"/a","path_base64":"?","source":"00000000000000000000000000000000"}]}`,
		"negative length": `{"version":1,"logs":[{"path":"/a","first_len":-1,"source":"00000000000000000000000000000000"}]}`,
		"no log":          `{"version":1,"logs":[null]}`,
		"short source":    `{"version":1,"logs":[{"path":"/a","source":"00"}]}`,
		"no source":       `{"version":1,"logs":[{"path":"/a","source":"zz"}]}`,
		"binary":          "\x00\x01\x02",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, positionsName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenPositions(dir); !errors.Is(err, ErrPositions) {
			t.Errorf("%s: got %v, want %v", name, err, ErrPositions)
		}
		if err := os.Remove(filepath.Join(dir, positionsName)); err != nil {
			t.Fatal(err)
		}
		if err := open(t, dir).Close(); err != nil { // the lock was let go
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestACrashLeavesTheOldOrTheNew: a file that was half written is never looked at.
func TestACrashLeavesTheOldOrTheNew(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir)
	p.add(&logFile{Path: "/a", Offset: 7})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, positionsName+".new"), []byte(`{"vers`), 0o600); err != nil {
		t.Fatal(err)
	}
	p = open(t, dir)
	if got := p.of("/a"); len(got) != 1 || got[0].Offset != 7 {
		t.Errorf("got %+v", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFullDiskIsReported(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir)
	if err := os.Mkdir(filepath.Join(dir, positionsName+".new"), 0o700); err != nil { // where the new file should go
		t.Fatal(err)
	}
	if err := p.Save(); err == nil {
		t.Error("got no error")
	}
	if err := os.Remove(filepath.Join(dir, positionsName+".new")); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestOldLogsAreForgotten, but none that is still to be read.
func TestOldLogsAreForgotten(t *testing.T) {
	p := open(t, t.TempDir())
	p.add(&logFile{Path: "/a", Offset: -1})
	for i := range 3 * keepLogs {
		p.add(&logFile{Path: "/a", Offset: int64(i), Finished: true})
	}
	p.add(&logFile{Path: "/b"})
	got := p.of("/a")
	if len(got) != keepLogs || got[0].Offset != -1 || got[1].Offset != 2*keepLogs+1 || len(p.of("/b")) != 1 {
		t.Errorf("got %d logs, the first of them at %d and %d", len(got), got[0].Offset, got[1].Offset)
	}
	p.logs = nil
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// file makes a file of that text and returns it open.
func file(t *testing.T, path, text string) *os.File {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestAFileIsKnownByItsFirstLine(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]struct {
		length int64
		whole  bool
	}{
		"":                                     {0, false},
		"half":                                 {4, false},
		"a\n":                                  {2, true},
		"\n":                                   {1, true},
		"a\nb\n":                               {2, true},
		strings.Repeat("x", maxFirst-1) + "\n": {maxFirst, true},
		strings.Repeat("x", maxFirst):          {maxFirst, true},
		strings.Repeat("x", 2*maxFirst):        {maxFirst, true},
	} {
		f := file(t, filepath.Join(dir, "log"), text)
		id, whole, err := identify(f)
		if err != nil || whole != want.whole || id.FirstLen != want.length || id.Size != int64(len(text)) || id.Inode == 0 {
			t.Errorf("%.10q: got %+v, %v, %v", text, id, whole, err)
		}
		l := &logFile{Device: id.Device, Inode: id.Inode, First: id.First, FirstLen: id.FirstLen}
		if !l.matches(f, id) || !l.begins(f) {
			t.Errorf("%.10q: is not itself", text)
		}
	}
	a, b := file(t, filepath.Join(dir, "a"), "first\nmore\n"), file(t, filepath.Join(dir, "b"), "first of another\n")
	id, _, _ := identify(a)
	l := &logFile{Device: id.Device, Inode: id.Inode, First: id.First, FirstLen: id.FirstLen, Offset: 6}
	other, _, _ := identify(b)
	other.Inode = id.Inode // used again
	if l.matches(b, other) || l.begins(b) {
		t.Error("an inode that is used again is taken for the old log")
	}
	l.Offset = 100
	if l.matches(a, id) {
		t.Error("a log that shrank is taken for itself")
	}
	if _, _, err := identify(file(t, filepath.Join(dir, "gone"), "")); err != nil {
		t.Error(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, _, err := identify(d); err == nil {
		t.Error("a directory is a log")
	}
}

func TestWhichFilesArePartOfALog(t *testing.T) {
	dir := t.TempDir()
	for name, ours := range map[string]bool{
		"access.log": true, "access.log.1": true, "access.log-20240102": true, "access.log.2.gz": false, "access.log.zst": false,
		"access.logs": false, "access_log": false, "other.log": false, "access.log.empty": false, "access.log.old": true,
	} {
		text := name + "\n"
		if strings.HasSuffix(name, "empty") {
			text = ""
		}
		file(t, filepath.Join(dir, name), text)
		found, err := siblings(filepath.Join(dir, "access.log"))
		if err != nil {
			t.Fatal(err)
		}
		listed := false
		for _, c := range found {
			listed = listed || filepath.Base(c.path) == name
		}
		if found.close(); listed != ours {
			t.Errorf("%s: got %v", name, listed)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "access.log.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	found, err := siblings(filepath.Join(dir, "access.log"))
	if err != nil || len(found) != 4 {
		t.Errorf("got %d files, %v", len(found), err)
	}
	found.close()
	if none, err := siblings(filepath.Join(dir, "none", "access.log")); err != nil || none != nil {
		t.Errorf("got %v, %v where there is no directory", none, err)
	}
}

// TestFileEventsWakeAFollower: with real events a line is there long before the next look.
func TestFileEventsWakeAFollower(t *testing.T) {
	dir := t.TempDir()
	path, a := filepath.Join(dir, "access.log"), newAnalyzer()
	p := open(t, filepath.Join(dir, "positions"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	f := &Follower{
		Path: path, Host: "test", Positions: p, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Open: func(id schemas.ProducerID, _ string, at int64) Sink { return &sink{a: a, id: id, read: at, done: at} },
	}
	go func() { ended <- f.Run(ctx) }()
	s, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 20 {
		if _, err := io.WriteString(s, fmt.Sprintf("line %d\n", i)); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); len(a.counted()) <= i; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("line %d is not read", i)
			}
		}
	}
	stop()
	if err := errors.Join(<-ended, p.Close()); err != nil {
		t.Error(err)
	}
}

// TestAFollowerWithoutADirectoryWaits: the server that makes it may start later.
func TestAFollowerWithoutADirectoryWaits(t *testing.T) {
	dir := t.TempDir()
	path, a := filepath.Join(dir, "later", "access.log"), newAnalyzer()
	p := open(t, filepath.Join(dir, "positions"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	f := &Follower{
		Path: path, Host: "test", Positions: p, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Open: func(id schemas.ProducerID, _ string, at int64) Sink { return &sink{a: a, id: id, read: at, done: at} },
	}
	go func() { ended <- f.Run(ctx) }()
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	file(t, path, "a\n")
	for deadline := time.Now().Add(10 * time.Second); len(a.counted()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is read")
		}
	}
	stop()
	if err := errors.Join(<-ended, p.Close()); err != nil {
		t.Error(err)
	}
}

// TestSourcesDiffer: by machine, path, file and beginning, and are the same for the same.
func TestSourcesDiffer(t *testing.T) {
	dir := t.TempDir()
	f := file(t, filepath.Join(dir, "log"), "first\n")
	id, _, err := identify(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[sourceID]string)
	other := id
	other.Inode++
	for name, c := range map[string]struct {
		host, path string
		id         identity
	}{
		"one": {"h", "/a", id}, "other host": {"i", "/a", id}, "other path": {"h", "/b", id}, "other inode": {"h", "/a", other},
	} {
		for range 2 {
			follower := &Follower{Path: c.path, Host: c.host, Positions: open(t, t.TempDir())}
			got := follower.log(f, c.id).Source
			if first, known := seen[got]; known && first != name {
				t.Errorf("%s is %s", name, first)
			}
			seen[got] = name
			follower.Positions.lock.Close()
		}
	}
	if len(seen) != 4 {
		t.Errorf("got %d sources, want 4", len(seen))
	}
}

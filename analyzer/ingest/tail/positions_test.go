package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

func openPositions(t *testing.T, dir string) *Positions {
	t.Helper()
	p, err := OpenPositions(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPositionsComeBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "as", "needed")
	p := openPositions(t, dir)
	want := logFile{
		Path: "/var/log/a", Name: "/var/log/a.1", Source: sourceID{1, 2, 255}, Acked: place{42, sum{1, 254}}, Read: place{43, sum{7}}, Own: 17,
		Marks: marks{{1}, {2}, {255}}, Modified: time.Unix(1, 2).UTC(), Changed: time.Unix(3, 4).UTC(), Finished: true,
	}
	l := want
	p.add(&l)
	p.add(&logFile{Path: "/var/log/b"})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = openPositions(t, dir)
	got := p.of("/var/log/a")
	if len(got) != 1 || !reflect.DeepEqual(*got[0], want) || len(p.of("/var/log/b")) != 1 || len(p.of("/none")) != 0 {
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
	p := openPositions(t, dir)
	paths := []string{"/var/log/a\xff.log", "/var/log/a\xfe.log", "/var/log/a\ufffd.log", "/var/log/\x1b\n\u202e.log"}
	for i, path := range paths {
		p.add(&logFile{Path: filePath(path), Acked: place{End: int64(i)}, Read: place{End: int64(i)}})
	}
	for range 2 { // also of positions that were read from a file
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		p = openPositions(t, dir)
		for i, path := range paths {
			if got := p.of(path); len(got) != 1 || got[0].Acked.End != int64(i) {
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
	p := openPositions(t, dir)
	if _, err := OpenPositions(dir, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want %v", err, ErrLocked)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openPositions(t, dir).Close(); err != nil {
		t.Error(err)
	}
}

func TestDamagedPositionsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              "",
		"cut":                `{"version":1,"logs":[{"path":"/a"`,
		"the version before": `{"version":1,"logs":[]}`,
		"no version":         `{"logs":[]}`,
		"negative":           `{"version":2,"logs":[{"path":"/a","acked":{"end":-1},"source":"00000000000000000000000000000000"}]}`,
		"acked and not read": `{"version":2,"logs":[{"path":"/a","acked":{"end":2},"read":{"end":1}}]}`,
		"short checksum":     `{"version":2,"logs":[{"path":"/a","acked":{"end":2,"sum":"00"}}]}`,
		"no base64":          `{"version":2,"logs":[{"path":{"base64":"?"}}]}`,
		"half a mark":        `{"version":2,"logs":[{"path":"/a","marks":"000000000000000000"}]}`,
		"no log":             `{"version":2,"logs":[null]}`,
		"short source":       `{"version":2,"logs":[{"path":"/a","source":"00"}]}`,
		"no source":          `{"version":2,"logs":[{"path":"/a","source":"zz"}]}`,
		"binary":             "\x00\x01\x02",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, positionsName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenPositions(dir, nil); !errors.Is(err, ErrPositions) || !strings.Contains(err.Error(), filepath.Join(dir, positionsName)) {
			t.Errorf("%s: got %v, want %v and the file's name", name, err, ErrPositions)
		}
		if err := os.Remove(filepath.Join(dir, positionsName)); err != nil {
			t.Fatal(err)
		}
		if err := openPositions(t, dir).Close(); err != nil { // the lock was let go
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestACrashLeavesTheOldOrTheNew: a file that was half written is never looked at.
func TestACrashLeavesTheOldOrTheNew(t *testing.T) {
	dir := t.TempDir()
	p := openPositions(t, dir)
	p.add(&logFile{Path: "/a", Acked: place{End: 7}, Read: place{End: 7}})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, positionsName+".new"), []byte(`{"vers`), 0o600); err != nil {
		t.Fatal(err)
	}
	p = openPositions(t, dir)
	if got := p.of("/a"); len(got) != 1 || got[0].Acked.End != 7 {
		t.Errorf("got %+v", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFullDiskIsReported(t *testing.T) {
	dir := t.TempDir()
	p := openPositions(t, dir)
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

// TestOldLogsAreForgotten, but none that is still to be read, and none whose file may be taken for a new one.
func TestOldLogsAreForgotten(t *testing.T) {
	p := openPositions(t, t.TempDir())
	at := func(i int) time.Time { return time.Unix(int64(i), 0) }
	p.add(&logFile{Path: "/a"})
	p.add(&logFile{Path: "/a", Finished: true, Read: place{End: 77}, Changed: at(3 * keepLogs)})
	for i := range 3 * keepLogs {
		p.add(&logFile{Path: "/a", Acked: place{End: int64(i)}, Finished: true, Changed: at(i), Modified: at(i)})
	}
	p.add(&logFile{Path: "/b"})
	got := p.of("/a")
	if len(got) != keepLogs || got[0].Finished || got[1].Read.End != 77 || got[2].Acked.End != 2*keepLogs+2 || len(p.of("/b")) != 1 {
		t.Errorf("got %d logs, the first of them %+v, %+v and %+v", len(got), got[0], got[1], got[2])
	}
	p.logs = nil
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// writeFile makes a file of that text.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFileEventsWakeAFollower: with real events a line is there long before the next look.
func TestFileEventsWakeAFollower(t *testing.T) {
	dir := t.TempDir()
	path, a := filepath.Join(dir, "access.log"), newAnalyzer()
	p := openPositions(t, filepath.Join(dir, "positions"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	f := &Follower{
		Path: path, Positions: p, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
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
	p := openPositions(t, filepath.Join(dir, "positions"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	f := &Follower{
		Path: path, Positions: p, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Open: func(id schemas.ProducerID, _ string, at int64) Sink { return &sink{a: a, id: id, read: at, done: at} },
	}
	go func() { ended <- f.Run(ctx) }()
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "a\n")
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

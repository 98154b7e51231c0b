package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// analyzer is what counts lines: it skips those at or below the last offset of their source, as the fold does.
type analyzer struct {
	mu    sync.Mutex
	last  map[schemas.ProducerID]int64 // guarded by mu
	lines []string                     // guarded by mu: those that count, in order
	again int                          // guarded by mu: those that came once more
	heads []string                     // guarded by mu
}

func newAnalyzer() *analyzer { return &analyzer{last: make(map[schemas.ProducerID]int64)} }

func (a *analyzer) counted() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.lines)
}

// sink feeds an analyzer. While it is held nothing is acknowledged.
type sink struct {
	a          *analyzer
	id         schemas.ProducerID
	held       *bool
	read, done int64
}

func (s *sink) Head(text []byte) {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.heads = append(s.a.heads, string(text))
}

func (s *sink) Text(ctx context.Context, text []byte, offset, next int64) error {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	for line := range bytes.Lines(text) {
		if last, seen := s.a.last[s.id]; seen && offset <= last {
			s.a.again++
		} else {
			s.a.last[s.id] = offset
			s.a.lines = append(s.a.lines, strings.TrimSuffix(string(line), "\n"))
		}
		offset += int64(len(line))
	}
	s.read = next
	if s.held == nil || !*s.held {
		s.done = next
	}
	return ctx.Err()
}

func (s *sink) End(int64)    {}
func (s *sink) Acked() int64 { s.a.mu.Lock(); defer s.a.mu.Unlock(); return s.done }

func (s *sink) Close() error {
	time.Sleep(time.Millisecond) // of virtual time
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if s.done < s.read {
		return errors.New("not flushed")
	}
	return nil
}

// server writes a log.
type server struct {
	t    *testing.T
	path string
	f    *os.File
}

func (s *server) open() {
	s.t.Helper()
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	s.f = f
}

func (s *server) write(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.f, text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) rename(to string) {
	s.t.Helper()
	if err := os.Rename(s.path, to); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) reopen() { s.f.Close(); s.open() }

// life is one run of a follower.
type life struct {
	t      *testing.T
	a      *analyzer
	follow *Follower
	stop   context.CancelFunc
	ended  chan error
	lost   int
	held   bool
}

// live starts a follower of path with the positions in dir. It makes no use of file events, so that time is virtual.
func live(t *testing.T, a *analyzer, dir, path string) *life {
	t.Helper()
	return liveFrom(t, a, dir, path, false)
}

func liveFrom(t *testing.T, a *analyzer, dir, path string, end bool) *life {
	t.Helper()
	p, err := OpenPositions(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	l := &life{t: t, a: a, stop: stop, ended: make(chan error, 1)}
	l.follow = &Follower{
		Path: path, Positions: p, Now: time.Now, Logger: slog.New(slog.DiscardHandler), FromEnd: end, Lost: func(int64) { l.lost++ },
		Open: func(id schemas.ProducerID, _ string, at int64) Sink {
			return &sink{a: a, id: id, held: &l.held, read: at, done: at}
		},
	}
	go func() { l.ended <- l.follow.run(ctx) }()
	return l
}

// end stops the follower cleanly.
func (l *life) end() {
	l.t.Helper()
	l.stop()
	if err := <-l.ended; err != nil {
		l.t.Errorf("follower: %v", err)
	}
	if err := l.follow.Positions.Close(); err != nil {
		l.t.Error(err)
	}
}

// die stops the follower as kill -9 would: nothing is saved any more.
func (l *life) die() {
	l.stop()
	<-l.ended
	l.follow.Positions.lock.Close()
}

func (l *life) expect(want ...string) {
	l.t.Helper()
	if got := l.a.counted(); !slices.Equal(got, want) {
		l.t.Errorf("got lines %.300q, want %.300q", got, want)
	}
}

// story runs steps in virtual time with a server and an empty directory of positions.
func story(t *testing.T, steps func(t *testing.T, dir string, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := &server{t: t, path: filepath.Join(dir, "access.log")}
		s.open()
		defer func() { s.f.Close() }()
		steps(t, filepath.Join(dir, "positions"), s)
	})
}

// pass lets the follower notice what happened.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestFollowsWhatIsAppended(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		l := live(t, newAnalyzer(), dir, s.path)
		pass(time.Second)
		l.expect()
		s.write("a")
		pass(time.Second)
		l.expect() // half a line
		s.write("b\nc\nd")
		pass(time.Second)
		l.expect("ab", "c")
		s.write("\n\r\n")
		pass(time.Second)
		l.expect("ab", "c", "d", "\r")
		l.end()
		l.expect("ab", "c", "d", "\r")
	})
}

func TestARotationLosesNothing(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		l := live(t, newAnalyzer(), dir, s.path)
		s.write("a\nb\n")
		pass(time.Second)
		s.rename(s.path + ".1")
		pass(300 * time.Millisecond)
		s.write("written to the old one\nwithout an end") // until the server is told
		old := s.f
		s.open()
		s.write("the first of the new one\n")
		pass(5 * time.Second)
		l.expect("a", "b", "written to the old one", "the first of the new one")
		old.Close()
		pass(time.Second)
		s.write("d\n")
		pass(time.Second)
		l.expect("a", "b", "written to the old one", "the first of the new one", "without an end", "d")
		l.end()
		if l.lost > 0 {
			t.Errorf("got %d logs lost", l.lost)
		}
	})
}

func TestARestartGoesOn(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		a := newAnalyzer()
		l := live(t, a, dir, s.path)
		s.write("a\nb\nc")
		pass(time.Second)
		l.end()
		s.write("c\nd\n")
		l = live(t, a, dir, s.path)
		pass(time.Second)
		l.expect("a", "b", "cc", "d")
		if a.again > 0 || !slices.Equal(a.heads, []string{"", "a\nb\n", "b"}) { // how the log begins, and the line before
			t.Errorf("got %d lines again, heads %q", a.again, a.heads)
		}
		l.end()
	})
}

func TestLogsThatWereRotatedDuringAStop(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		a := newAnalyzer()
		l := live(t, a, dir, s.path)
		s.write("a\n")
		pass(time.Second)
		l.end()
		for i, text := range []string{"b\n", "the first of another\nd\n", "that of the one after it\n"} {
			s.write(text)
			pass(time.Second)
			info, err := os.Stat(s.path)
			if err == nil { // the clock of the file system is too coarse for this test
				err = os.Chtimes(s.path, time.Time{}, info.ModTime().Add(time.Duration(i+1)*time.Second))
			}
			if err != nil {
				t.Fatal(err)
			}
			s.rename(fmt.Sprintf("%s-2015051%d", s.path, i))
			s.reopen()
		}
		s.write("that of the one at the path\n")
		l = live(t, a, dir, s.path)
		pass(20 * time.Second)
		l.expect("a", "b", "the first of another", "d", "that of the one after it", "that of the one at the path")
		l.end()
	})
}

func TestAFirstStartLeavesOldLogsAlone(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		s.write("long ago\n")
		s.rename(s.path + ".1")
		s.reopen()
		s.write("a\n")
		l := live(t, newAnalyzer(), dir, s.path)
		pass(5 * time.Second)
		l.expect("a")
		l.end()
	})
}

func TestALostLogIsReported(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		a := newAnalyzer()
		l := live(t, a, dir, s.path)
		s.write("a\n")
		pass(time.Second)
		l.end()
		s.write("never read\n")
		if err := os.Remove(s.path); err != nil {
			t.Fatal(err)
		}
		s.f.Close()
		pass(time.Second)
		other := &server{t: t, path: s.path + ".placeholder"} // so that the inode is not used again
		other.open()
		defer other.f.Close()
		s.open()
		s.write("b\n")
		l = live(t, a, dir, s.path)
		pass(5 * time.Second)
		l.expect("a", "b")
		if l.lost != 1 {
			t.Errorf("got %d logs lost, want 1", l.lost)
		}
		l.end()
	})
}

// TestCopiedAndTruncated is logrotate's copytruncate, with a new log that begins as the old one did.
func TestCopiedAndTruncated(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		a := newAnalyzer()
		l := live(t, a, dir, s.path)
		s.write("#Fields: always the same\nb\nc\n")
		pass(time.Second)
		s.write("d\n")
		text, err := os.ReadFile(s.path)
		if err == nil {
			err = os.WriteFile(s.path+".1", text, 0o600)
		}
		if err == nil {
			err = s.f.Truncate(0)
		}
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		s.write("#Fields: always the same\nthe first of the new log\n")
		pass(5 * time.Second)
		want := []string{"#Fields: always the same", "b", "c", "d", "#Fields: always the same", "the first of the new log"}
		l.expect(want...)
		l.end()
		l = live(t, a, dir, s.path)
		pass(5 * time.Second)
		l.expect(want...)
		l.end()
		if l.lost > 0 {
			t.Errorf("got %d logs lost, want none", l.lost)
		}
	})
}

func TestALogThatIsRewrittenUnderItsInode(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		l := live(t, newAnalyzer(), dir, s.path)
		s.write("a\nb\n")
		pass(time.Second)
		if err := s.f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		s.write("other and longer than what was there\nd\n")
		pass(5 * time.Second)
		l.expect("a", "b", "other and longer than what was there", "d")
		l.end()
	})
}

func TestOnlyWhatIsAcknowledgedIsRemembered(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		a := newAnalyzer()
		l := live(t, a, dir, s.path)
		s.write("a\n")
		pass(time.Second)
		if err := l.follow.Positions.Save(); err != nil {
			t.Fatal(err)
		}
		l.held = true
		s.write("b\nc\n")
		pass(time.Second)
		if err := l.follow.Positions.Save(); err != nil {
			t.Fatal(err)
		}
		l.die()
		l = live(t, a, dir, s.path)
		pass(time.Second)
		l.expect("a", "b", "c")
		if a.again != 2 {
			t.Errorf("got %d lines again, want 2", a.again)
		}
		l.end()
	})
}

func TestALineThatFitsNowhereIsCut(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		a := newAnalyzer()
		s.write("a\n" + strings.Repeat("x", 3*bufferSize) + "\nb\n" + strings.Repeat("y", bufferSize+17))
		l := live(t, a, dir, s.path)
		pass(time.Second)
		l.expect("a", strings.Repeat("x", ingest.MaxLine+1), "b", strings.Repeat("y", ingest.MaxLine+1))
		s.write("yy\nc\n")
		pass(time.Second)
		l.end()
		l = live(t, a, dir, s.path)
		pass(time.Second)
		if got := a.counted(); len(got) != 5 || got[4] != "c" {
			t.Errorf("got %d lines, the last %.20q", len(got), got[len(got)-1])
		}
		l.end()
	})
}

func TestOnce(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		for text, want := range map[string]string{"a\nb": "a b", "": ""} {
			a := newAnalyzer()
			p, err := OpenPositions(filepath.Join(dir, fmt.Sprint(len(text))), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f := &Follower{
				Path: s.path, Positions: p, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Once: true,
				Open: func(id schemas.ProducerID, _ string, at int64) Sink { return &sink{a: a, id: id, read: at, done: at} },
			}
			err = f.run(t.Context())
			if got := strings.Join(a.counted(), " "); got != want || (err == nil) != (text != "") {
				t.Errorf("%q: got %q, %v", text, got, err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

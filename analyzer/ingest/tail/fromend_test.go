package tail

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestFromTheEnd: what a log has at the first look of all does not count, and everything that comes later does, also after kill -9 before
// its first line, and after rotations.
func TestFromTheEnd(t *testing.T) {
	for name, before := range map[string]string{
		"lines": "old 1\nold 2\n", "half a line": "old 1\nha", "nothing": "", "much": strings.Repeat("old line\n", 1<<18), "half a long line": "old\n" + strings.Repeat("x", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, dir string, s *server) {
				s.write(before)
				half := before[strings.LastIndexByte(before, '\n')+1:]
				a := newAnalyzer()
				l := liveFrom(t, a, dir, s.path, true)
				pass(time.Second)
				l.expect()
				l.die()
				s.write("lf 1\nnew 2\n")
				first := half + "lf 1"
				l = liveFrom(t, a, dir, s.path, true)
				pass(time.Second)
				l.expect(first, "new 2")
				s.rename(s.path + ".1")
				s.write("new 3\n")
				s.reopen()
				s.write("new 4, a line of another log\n")
				l.die()
				l = liveFrom(t, a, dir, s.path, true)
				pass(5 * time.Second)
				l.expect(first, "new 2", "new 3", "new 4, a line of another log")
				l.end()
			})
		})
	}
}

// TestTheLastLineEnd is found wherever it is.
func TestTheLastLineEnd(t *testing.T) {
	x := strings.Repeat("x", 3<<20)
	for text, want := range map[string]int64{"": 0, "x": 0, x: 0, "\n": 1, "a\n" + x: 2, x + "\n": 3<<20 + 1, x + "\nb": 3<<20 + 1} {
		got, err := content{strings.NewReader(text), int64(len(text))}.lastLineEnd()
		if err != nil || got != want {
			t.Errorf("%d bytes: got %d, %v, want %d", len(text), got, err, want)
		}
	}
}

// TestFromTheEndOfALogThatComesLater: nothing was there at the first look, so that all of it counts.
func TestFromTheEndOfALogThatComesLater(t *testing.T) {
	story(t, func(t *testing.T, dir string, s *server) {
		if err := os.Remove(s.path); err != nil {
			t.Fatal(err)
		}
		a := newAnalyzer()
		l := liveFrom(t, a, dir, s.path, true)
		pass(time.Second)
		s.reopen()
		s.write("a\n")
		pass(time.Second)
		l.expect("a")
		l.end()
	})
}

// TestPositionsAreWrittenBehindTheLog: what was acknowledged is durable before the positions say so, and a log that cannot be synced keeps
// the positions as they were.
func TestPositionsAreWrittenBehindTheLog(t *testing.T) {
	dir, synced, broken := t.TempDir(), 0, error(nil)
	p, err := OpenPositions(dir, func() error { synced++; return broken })
	if err != nil {
		t.Fatal(err)
	}
	p.add(&logFile{Path: "/a", Read: place{End: 1}})
	broken = errors.New("the disk is broken")
	if err := p.Save(); !errors.Is(err, broken) {
		t.Errorf("got %v, want that the log cannot be synced", err)
	}
	if _, err := os.Stat(dir + "/" + positionsName); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want nothing written", err)
	}
	broken = nil
	if err := p.Save(); err != nil || synced != 2 {
		t.Errorf("got %v after %d syncs, want the positions written after the second", err, synced)
	}
	if err := p.Close(); err != nil || synced != 2 {
		t.Errorf("got %v after %d syncs, want nothing more to write", err, synced)
	}
}

package analyzer

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// TestClosesAndWarningsAreLogged, with all that a person asks first, and nothing that a client wrote is acted upon.
func TestClosesAndWarningsAreLogged(t *testing.T) {
	var out bytes.Buffer
	l := newCloseLog(slog.New(printable.TextHandler(&out, slog.LevelInfo)))
	closed, warned, opened, moved := closing(t, "a\x1b[2J"), closing(t, "b"), closing(t, "c"), closing(t, "d")
	closed.Count.Total, closed.Limit, closed.Closure.Until = 7, 3, time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).UnixNano()
	warned.Kind, warned.Warn, warned.Count.Total, warned.Limit = policy.Same, 0.5, 2, 3
	opened.Kind, moved.Kind = policy.Opened, policy.Moved
	l.add(4, []fold.Change{closed, opened, warned, moved}, time.Now())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %q, want a close and a warning", lines)
	}
	for i, want := range []string{
		`msg=closed partition=4 rule=r caller="key:a\x1b[2J" mode=enforce count=7 limit=3 until=2026-03-02T12:00:00.000Z`,
		`msg=warning partition=4 rule=r caller=key:b mode=enforce share=0.5 count=2 limit=3`,
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("got %q, want %q", lines[i], want)
		}
	}
}

// TestAFloodOfClosesIsNoFloodOfLines: after so many lines in a second, the rest is a number, which comes although nothing
// else is closed. The next second begins anew.
func TestAFloodOfClosesIsNoFloodOfLines(t *testing.T) {
	var out bytes.Buffer
	l := newCloseLog(slog.New(printable.TextHandler(&out, slog.LevelInfo)))
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	var changes []fold.Change
	for i := range 3 * closeLines {
		c := closing(t, fmt.Sprint(i))
		if i >= 2*closeLines {
			c.Kind, c.Warn = policy.Same, 0.5
		}
		changes = append(changes, c)
	}
	l.add(0, changes[:closeLines], noon)
	l.add(0, changes[closeLines:], noon.Add(999*time.Millisecond))
	l.flush(noon.Add(999 * time.Millisecond))
	if n := strings.Count(out.String(), "\n"); n != closeLines {
		t.Errorf("in the first second: got %d lines, want %d", n, closeLines)
	}
	out.Reset()
	l.flush(noon.Add(time.Second))
	l.flush(noon.Add(time.Hour))
	want := fmt.Sprintf("since=2026-03-02T12:00:00.000Z closes=%d warnings=%d\n", closeLines, closeLines)
	if !strings.HasSuffix(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("got %q, want %q once", out.String(), want)
	}
	out.Reset()
	l.add(0, changes[:2], noon.Add(-time.Hour)) // a clock that was set back
	if n := strings.Count(out.String(), "msg=closed"); n != 2 {
		t.Errorf("in another second: got %q", out.String())
	}
}

// TestOwnersShareACloseLog, at once: no close is lost. For the race detector.
func TestOwnersShareACloseLog(t *testing.T) {
	var out bytes.Buffer
	l := newCloseLog(slog.New(printable.TextHandler(&out, slog.LevelInfo)))
	noon := time.Now()
	var all sync.WaitGroup
	for p := range 4 {
		change := closing(t, "x")
		all.Go(func() {
			for range 100 {
				l.add(p, []fold.Change{change}, noon)
				l.flush(noon)
			}
		})
	}
	all.Wait()
	l.flush(noon.Add(time.Minute))
	if n := strings.Count(out.String(), "msg=closed"); n != closeLines || !strings.Contains(out.String(), fmt.Sprintf("closes=%d ", 400-closeLines)) {
		t.Errorf("got %d lines and %q", n, out.String()[max(0, out.Len()-200):])
	}
}

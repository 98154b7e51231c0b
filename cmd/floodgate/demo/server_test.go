package demo

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// TestAServerWithoutKafkaServes, and knows that it hears no owner: its gates are open.
func TestAServerWithoutKafkaServes(t *testing.T) {
	s, err := newServer([]string{"127.0.0.1:1"}, slog.New(slog.DiscardHandler), newCloseWatch())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running errgroup.Group
	running.Go(func() error { return s.run(ctx) })
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(keyHeader, "anybody")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || string(text) != "hello\n" || err != nil {
		t.Errorf("got %d %q %v, want hello", resp.StatusCode, text, err)
	}
	if s.fresh() {
		t.Error("got fresh gates, want none: there is no broker")
	}
	if n := s.rec.Stats().Accepted; n != 1 {
		t.Errorf("got %d requests recorded, want 1", n)
	}
}

// change is a close of a caller, as an owner reports it.
func change(t *testing.T, id string, until time.Time, before policy.Closure) fold.Change {
	t.Helper()
	config := Config{Limit: 100, Window: 2 * time.Second}
	set, err := config.Rules()
	if err != nil {
		t.Fatal(err)
	}
	c := fold.Change{Caller: schemas.Caller{Kind: "key", ID: id}, Rule: set.Rules[0], Limit: 100, Before: before}
	c.Closure.Until = until.UnixNano()
	return c
}

// applied is a decision as a gate applies it.
func applied(id string, reached, closeAt, until time.Time) schemas.Decision {
	d := schemas.Decision{Caller: schemas.Caller{Kind: "key", ID: id}, CloseAt: closeAt.UnixNano(), Until: until.UnixNano()}
	d.Evidence.AsOfTime = reached.UnixNano()
	return d
}

// TestCloseWatch: closes are counted where they are decided, and their lag is measured where they are applied.
func TestCloseWatch(t *testing.T) {
	w := newCloseWatch()
	at := func(ms int) time.Time { return time.Unix(100, int64(ms)*1e6) }
	w.counted(change(t, "b", at(1000), policy.Closure{}), 0)
	w.counted(change(t, "a", at(2000), policy.Closure{}), 0)
	w.counted(change(t, "a", at(3000), policy.Closure{}), 0)
	if w.closes["key:a"] != 2 || w.closes["key:b"] != 1 {
		t.Errorf("got %v closes, want 2 of a and 1 of b", w.closes)
	}
	for _, c := range []struct {
		now  int
		want string
	}{{0, "key:a key:b "}, {999, "key:a key:b "}, {1000, "key:a "}, {2999, "key:a "}, {3000, ""}} {
		got := ""
		for _, x := range w.closed(at(c.now)) {
			got += x.caller + " "
		}
		if got != c.want {
			t.Errorf("closed after %d ms: got %q, want %q", c.now, got, c.want)
		}
	}
	first, second, late := w.gate(), w.gate(), w.gate()
	early := applied("a", at(0), at(1), at(2000))
	early.Early = true
	first(early, at(2))                                 // it is predicted
	first(applied("a", at(0), at(0), at(3000)), at(4))  // a close
	second(applied("a", at(1), at(0), at(4000)), at(5)) // the second server learns of close and move by one decision
	first(applied("a", at(1), at(0), at(4000)), at(6))  // its end is moved
	second(applied("a", at(1), at(0), at(4000)), at(7)) // a repeat
	first(applied("a", at(0), at(0), at(0)), at(8))     // it is opened
	late(applied("a", at(0), at(0), at(3000)), at(99_999))
	if lags := w.lag(); len(lags) != 2 || lags[0] != 4*time.Millisecond || lags[1] != 5*time.Millisecond {
		t.Errorf("got lags of %v, want 4ms and 5ms: of each close at each gate, not of predictions, moves, repeats, ends and what a late server learns", lags)
	}
	w.lag()[0] = 0
	if w.lag()[0] == 0 {
		t.Error("got the watch's own list, want a copy")
	}
}

// TestCloseWatchFromAllSides is for the race detector: owners and gates report closes while the view reads them.
func TestCloseWatchFromAllSides(t *testing.T) {
	w := newCloseWatch()
	closed := change(t, "a", time.Unix(9, 0), policy.Closure{})
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			for range 500 {
				w.counted(closed, 0)
				w.gate()(applied("a", time.Unix(1, 0), time.Unix(1, 0), time.Unix(2, 0)), time.Unix(1, 1))
				_, _ = w.closed(time.Unix(0, 0)), w.lag()
			}
			return nil
		})
	}
	_ = g.Wait() // returns no error
	if w.closes["key:a"] != 2000 || len(w.lag()) != 2000 {
		t.Errorf("got %d closes and %d lags, want 2000 of each", w.closes["key:a"], len(w.lag()))
	}
}

// TestCloseWatchKeepsTheWorstOvershoot of the closes that have ended: how far one that still goes on will go, nobody knows.
func TestCloseWatchKeepsTheWorstOvershoot(t *testing.T) {
	w := newCloseWatch()
	for _, peak := range []int64{0, 150, 120} {
		w.counted(change(t, "a", time.Unix(9, 0), policy.Closure{Peak: peak, Nth: 1}), 0)
	}
	if got := w.worst["key:a"]; got != 0.5 {
		t.Errorf("got an overshoot of %v, want 0.5: 150 of 100", got)
	}
	if got := w.worst["key:b"]; got != 0 {
		t.Errorf("of one that was never closed: got %v, want 0", got)
	}
}

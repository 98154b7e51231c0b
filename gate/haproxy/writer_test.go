package haproxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// world is a Writer between a board and a fake HAProxy, in a bubble of synctest.
type world struct {
	*Writer

	t     *testing.T
	board *board.Board
	fake  *fake
	seq   uint64
	log   *strings.Builder
	back  atomic.Int64 // how far the clock was put back, in nanoseconds
}

// story runs a test in a bubble, with a board that is ready and a map of each of two kinds.
func story(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.load()
		w.run()
		f(t, w)
	})
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{t: t, board: board.New(board.Options{}), fake: newFake("ip.map", "key.map"), log: &strings.Builder{}}
	o.Board, o.Maps = w.board, []Map{{schemas.KindIP, "ip.map"}, {"key", "key.map"}}
	o.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	w.Writer = New(o)
	w.dial = w.fake.dial
	w.clock = func() time.Time { return time.Now().Add(-time.Duration(w.back.Load())) }
	w.board.Resize(1)
	return w
}

func (w *world) load() { w.board.Loaded(0) }

func (w *world) run() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	running.Go(func() {
		for ctx.Err() == nil {
			w.board.Expire(time.Now())
			time.Sleep(250 * time.Millisecond)
		}
	})
	w.t.Cleanup(func() { cancel(); running.Wait() })
	w.settle()
}

// settle waits until what was decided is written.
func (w *world) settle() {
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
}

// decide closes a caller for a time from now on; 0 opens it.
func (w *world) decide(caller string, d time.Duration) {
	now := time.Now()
	w.apply(schemas.Decision{CloseAt: now.UnixNano(), Until: now.Add(d).UnixNano()}, caller)
}

func (w *world) apply(d schemas.Decision, caller string) {
	w.seq++
	d.Seq, d.Epoch = w.seq, 1
	kind, id, _ := strings.Cut(caller, ":")
	d.Caller = schemas.Caller{Kind: kind, ID: id}
	if d.Mode == 0 {
		d.Mode = schemas.ModeEnforce
	}
	if d.Rule == "" {
		d.Rule = "per-" + kind
	}
	w.board.Apply([]schemas.Decision{d}, time.Now())
}

// in returns the text of a value that ends after a time.
func in(d time.Duration, more string) string {
	return fmt.Sprint(time.Now().Add(d).UnixMilli(), more)
}

func (w *world) want(name string, entries ...string) {
	w.t.Helper()
	w.settle()
	w.wantNow(name, entries...)
}

func (w *world) wantNow(name string, entries ...string) {
	w.t.Helper()
	slices.Sort(entries)
	if got := w.fake.has(name); !slices.Equal(got, entries) {
		w.t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(entries, "\n"))
	}
}

// TestMapsFollowTheBoard tells what comes into the maps and what leaves them.
func TestMapsFollowTheBoard(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.want("ip.map")
		w.decide("ip:192.0.2.1", 5*time.Second)
		w.decide("key:a b;c\n<<", 5*time.Second)
		w.decide("tenant:t", 5*time.Second) // nobody looks it up
		until := in(5*time.Second, ":per-ip")
		w.want("ip.map", "192.0.2.1 "+until)
		w.want("key.map", "a%20b%3Bc%0A%3C%3C "+strings.Replace(until, "ip", "key", 1))

		w.apply(schemas.Decision{
			CloseAt: time.Now().UnixNano(), Until: time.Now().Add(9 * time.Second).UnixNano(), Rule: "harder",
			Evidence: schemas.Evidence{Limit: 100, Window: int64(90 * time.Second)},
		}, "ip:192.0.2.1")
		later := in(9*time.Second, ":harder:100:90")
		time.Sleep(pollEvery) // there is time left
		w.want("ip.map", "192.0.2.1 "+later)

		w.apply(schemas.Decision{Rule: "harder"}, "ip:192.0.2.1")
		w.want("ip.map", "192.0.2.1 "+until)
		w.apply(schemas.Decision{Rule: "per-ip"}, "ip:192.0.2.1")
		w.want("ip.map")
		time.Sleep(6 * time.Second)
		w.want("key.map")
		if s := w.Stats(); !s.Connected || s.Added != 2 || s.Changed != 2 || s.Removed != 2 || s.Fills != 1 || s.Repaired+s.Failures+s.Rewritten != 0 {
			t.Errorf("got %+v, want 2 entries added, changed twice and removed, and nothing else", s)
		}
	})
}

// TestAClosureIsWrittenWhenItBegins: before that it refuses nobody. The span that follows is in it from the beginning if there is no gap.
func TestAClosureIsWrittenWhenItBegins(t *testing.T) {
	story(t, func(_ *testing.T, w *world) {
		now := time.Now()
		at := func(s float64) int64 { return now.Add(time.Duration(s * float64(time.Second))).UnixNano() }
		w.apply(schemas.Decision{CloseAt: at(1), Until: at(2), Early: true, Next: schemas.Span{CloseAt: at(4), Until: at(5)}}, "ip:192.0.2.1")
		w.apply(schemas.Decision{CloseAt: at(1), Until: at(2), Early: true, Next: schemas.Span{CloseAt: at(2), Until: at(3)}}, "ip:192.0.2.2")
		w.want("ip.map")
		time.Sleep(time.Until(now.Add(time.Second)))
		w.want("ip.map", fmt.Sprint("192.0.2.1 ", at(2)/1e6, ":per-ip"), fmt.Sprint("192.0.2.2 ", at(3)/1e6, ":per-ip"))
		time.Sleep(time.Until(now.Add(3500 * time.Millisecond)))
		w.want("ip.map")
		time.Sleep(time.Until(now.Add(4 * time.Second)))
		w.want("ip.map", fmt.Sprint("192.0.2.1 ", at(5)/1e6, ":per-ip"))
	})
}

// TestWhatIsNotWritten is counted.
func TestWhatIsNotWritten(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("ip:not an address", time.Minute)
		w.decide("ip:2001:db8::1", time.Minute)      // its network is one client
		w.decide("ip:::ffff:192.0.2.1", time.Minute) // not as it is counted
		w.decide("ip:2001:db8:0:1::", 5*time.Second)
		w.apply(schemas.Decision{CloseAt: time.Now().UnixNano(), Until: time.Now().Add(time.Minute).UnixNano(), Mode: schemas.ModeShadow}, "key:s")
		w.want("ip.map", "2001:db8:0:1::/64 "+in(5*time.Second, ":per-ip"))
		w.want("key.map")
		if s := w.Stats(); s.Skipped["address"] != 3 || s.Skipped["shadow"] != 1 {
			t.Errorf("got %v, want 3 addresses and 1 shadow", s.Skipped)
		}
	})
}

// TestShadowKeepsMapsEmpty also if they were not.
func TestShadowKeepsMapsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Shadow: true})
		w.fake.restart("192.0.2.1 " + in(time.Minute, ":per-ip"))
		w.load()
		w.decide("ip:192.0.2.1", time.Minute)
		w.run()
		w.want("ip.map")
	})
}

// TestARestartIsNoticed within a second, although a file had entries and as many as were expected.
func TestARestartIsNoticed(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("ip:192.0.2.1", time.Hour)
		w.decide("key:a", time.Hour)
		w.settle()
		ip, key := w.fake.has("ip.map"), w.fake.has("key.map")
		for _, file := range [][]string{nil, {"192.0.2.9 99999999999999:by-hand"}, {"192.0.2.1 1:over"}, {"192.0.2.1 what is this", "a b c", "x y", "z z"}} {
			w.fake.restart(file...)
			time.Sleep(time.Second)
			w.wantNow("ip.map", ip...)
			w.wantNow("key.map", key...)
		}
		if s := w.Stats(); s.Fills != 5 || s.Repaired != 0 || s.Failures != 0 {
			t.Errorf("got %+v, want 5 fills and no repair", s)
		}
	})
}

// TestNothingIsRemovedBeforeTheBoardIsReady: a sidecar that starts does not open those whom the one before it has closed.
func TestNothingIsRemovedBeforeTheBoardIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		closed, stale := "192.0.2.1 "+in(time.Hour, ":per-ip"), "192.0.2.2 "+in(time.Hour, ":per-ip")
		w.fake.restart(closed, stale)
		w.run()
		w.apply(schemas.Decision{CloseAt: time.Now().UnixNano(), Until: time.Now().Add(time.Hour - 10*time.Millisecond).UnixNano(), Early: true}, "ip:192.0.2.1")
		time.Sleep(5 * time.Second)
		w.wantNow("ip.map", closed, stale)
		w.load()
		time.Sleep(time.Second)
		w.wantNow("ip.map", closed)
		if s := w.Stats(); s.Repaired != 0 {
			t.Errorf("got %d repairs, want 0", s.Repaired)
		}
	})
}

// TestRepairs: what somebody else does to a map is undone within a minute, and at once if there are fewer or more entries.
func TestRepairs(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		for i := range 10 {
			w.decide(fmt.Sprintf("ip:192.0.2.%d", i), time.Hour)
		}
		w.settle()
		right := w.fake.has("ip.map")
		repaired := uint64(0)
		for _, damage := range []struct {
			name   string
			n      uint64
			within time.Duration
			do     func(m *fakeMap)
		}{
			{"one removed", 1, time.Second, func(m *fakeMap) { m.entries = m.entries[1:] }},
			{"all removed", 10, time.Second, func(m *fakeMap) { m.entries = nil }},
			{"one added", 1, time.Second, func(m *fakeMap) { m.entries = append(m.entries, fakeEntry{m.curr, "203.0.113.1", "9999999999999:x"}) }},
			{"one twice", 0, time.Second, func(m *fakeMap) { m.entries = append(m.entries, m.entries[0]) }},
			{"another version begun", 0, time.Second, func(m *fakeMap) { m.next++; m.entries = append(m.entries, fakeEntry{m.next, "203.0.113.1", "1"}) }},
			{"one changed", 1, time.Minute + time.Second, func(m *fakeMap) { m.entries[3].text = "1:x" }},
			{"one in the place of another", 2, time.Minute + time.Second, func(m *fakeMap) { m.entries[3].key = "203.0.113.1" }},
		} {
			w.fake.set(func(f *fake) { damage.do(f.maps["ip.map"]) })
			time.Sleep(damage.within)
			w.wantNow("ip.map", right...)
			repaired += damage.n
			if s := w.Stats(); s.Repaired != repaired || s.Failures != 0 {
				t.Errorf("%s: got %+v, want %d repaired and no failure", damage.name, s, repaired)
			}
		}
	})
}

// TestHAProxyAway: whatever HAProxy does, the board is followed, and the maps are right within a second of its return.
func TestHAProxyAway(t *testing.T) {
	for _, trouble := range []struct {
		name string
		do   func(f *fake, on bool)
	}{
		{"no socket", func(f *fake, on bool) { f.away = on }},
		{"stopped", func(f *fake, on bool) { f.silent = on }},
		{"another program", func(f *fake, on bool) {
			f.answered = nil
			if on {
				f.answered = func(string) (string, bool) { return "220 mail ready\r\n500 what?\r\n", true }
			}
		}},
		{"no permission", func(f *fake, on bool) {
			f.answered = nil
			if on {
				f.answered = func(c string) (string, bool) { return "Permission denied\n", c != "prompt" }
			}
		}},
		{"no such map", func(f *fake, on bool) {
			if on {
				f.maps["later"] = f.maps["key.map"]
				delete(f.maps, "key.map")
			} else {
				f.maps["key.map"] = f.maps["later"]
				delete(f.maps, "later")
			}
		}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.decide("ip:192.0.2.1", time.Hour)
				w.decide("ip:192.0.2.2", time.Hour)
				w.settle()
				w.fake.set(func(f *fake) { trouble.do(f, true) })
				w.decide("ip:192.0.2.1", 0)
				for i := range 2000 {
					w.decide(fmt.Sprint("key:", i), time.Second)
				}
				time.Sleep(20 * time.Second)
				if s := w.Stats(); s.Connected || s.Failures == 0 && trouble.name != "no such map" {
					t.Errorf("got %+v, want failures, and HAProxy not connected", s)
				}
				w.decide("ip:192.0.2.3", time.Hour)
				w.fake.set(func(f *fake) { trouble.do(f, false) })
				time.Sleep(answerWithin + time.Second)
				if got := w.fake.has("ip.map"); len(got) != 2 || !strings.HasPrefix(got[0], "192.0.2.2 ") || !strings.HasPrefix(got[1], "192.0.2.3 ") {
					t.Errorf("got %q, want 192.0.2.2 and 192.0.2.3", got)
				}
				if n := strings.Count(w.log.String(), "level=WARN"); n == 0 || n > 2 {
					t.Errorf("got %d warnings, want 1 or 2:\n%s", n, w.log)
				}
			})
		})
	}
}

// TestABrokenConnection: wherever a connection breaks, the maps are right in the end, and no entry is there twice.
func TestABrokenConnection(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		for n := range 24 {
			w.fake.set(func(f *fake) { f.breakIn = n + 1 })
			for i := range 3 {
				w.decide(fmt.Sprint("key:", i), time.Duration(n%3)*time.Hour) // opened, closed, moved
			}
			for i := range 300 { // so many that the map is rewritten when they open
				w.decide(fmt.Sprint("key:many", i), time.Duration(n%2)*time.Hour)
			}
			time.Sleep(3 * time.Second)
			want := 300 * (n % 2)
			if n%3 > 0 {
				want += 3
			}
			if got := w.fake.has("key.map"); len(got) != want {
				t.Fatalf("broken after %d commands: got %d entries, want %d", n+1, len(got), want)
			}
		}
		if s := w.Stats(); s.Failures < 12 || s.Rewritten == 0 {
			t.Errorf("got %+v, want failures and rewritten maps", s)
		}
	})
}

// TestManyChangesAreARewrite: where a change takes HAProxy long, it gets a new version of the map, and new closures are in force meanwhile.
func TestManyChangesAreARewrite(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		for i := range 3000 {
			w.decide(fmt.Sprint("key:", i), time.Hour)
		}
		w.settle()
		w.fake.set(func(f *fake) {
			f.asked = nil
			f.slow = time.Millisecond // for each command
		})
		for i := range 1500 {
			w.decide(fmt.Sprint("key:", i), 0)
		}
		time.Sleep(30 * time.Millisecond)
		w.decide("key:new", time.Hour) // in the midst
		begun := time.Now()
		for !slices.ContainsFunc(w.fake.has("key.map"), func(s string) bool { return strings.HasPrefix(s, "new ") }) {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begun); took > 50*time.Millisecond {
			t.Errorf("got the new closure in force after %v, want 50 ms at most", took)
		}
		time.Sleep(time.Second)
		if got := w.fake.has("key.map"); len(got) != 1501 {
			t.Errorf("got %d entries, want 1501", len(got))
		}
		if s := w.Stats(); s.Rewritten == 0 || s.Removed > 100 || s.Repaired != 0 {
			t.Errorf("got %+v, want a rewrite in the place of 1500 removals", s)
		}
	})
}

// TestEndedEntriesAreBounded: they refuse nobody, so they wait; but not for ever.
func TestEndedEntriesAreBounded(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.fake.set(func(f *fake) { f.slow = 2 * time.Millisecond })
		for range 10 {
			for i := range 500 {
				w.decide(fmt.Sprint("key:", rand.Uint64(), i), time.Second)
			}
			time.Sleep(time.Second)
		}
		if n := len(w.fake.has("key.map")); n > 3000 {
			t.Errorf("got %d entries, want the 500 in force, and at most half as many and 1000 that are over", n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(w.fake.has("key.map")); n != 0 {
			t.Errorf("got %d entries, want none", n)
		}
	})
}

// TestTheClockIsPutBack: closures that begin later by the new clock are open until then, as at a gate.
func TestTheClockIsPutBack(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("ip:192.0.2.1", time.Hour)
		w.apply(schemas.Decision{CloseAt: time.Now().Add(-2 * time.Hour).UnixNano(), Until: time.Now().Add(time.Hour).UnixNano(), Early: true}, "ip:192.0.2.2")
		w.settle()
		w.back.Store(int64(time.Hour))
		time.Sleep(pollEvery)
		w.settle()
		if got := w.fake.has("ip.map"); len(got) != 1 || !strings.HasPrefix(got[0], "192.0.2.2 ") {
			t.Errorf("got %q, want 192.0.2.2 alone", got)
		}
	})
}

// TestAStopLeavesTheMaps, and does not wait for a HAProxy that does not answer.
func TestAStopLeavesTheMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.load()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.Run(ctx) })
		w.settle()
		w.decide("ip:192.0.2.1", time.Hour)
		w.settle()
		w.fake.set(func(f *fake) { f.silent = true })
		time.Sleep(pollEvery)
		begun := time.Now()
		cancel()
		running.Wait()
		if took := time.Since(begun); took != 0 || len(w.fake.has("ip.map")) != 1 {
			t.Errorf("got it stopped after %v with %q, want at once, and the entry there", took, w.fake.has("ip.map"))
		}
	})
}

// FuzzAnswers: whatever listens at the socket, the Writer neither panics nor waits for ever.
func FuzzAnswers(f *testing.F) {
	f.Add("\n> Pid: 1\n\n> # id\n0 (key.map) entry_cnt=1\n\n> 0x1 a 1:b\n\n> ")
	f.Add("\n> ")
	f.Add("+ + + \n> \n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			w.dial = func(context.Context) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				go func() { _, _ = io.WriteString(theirs, text); _ = theirs.Close() }()
				return ours, nil
			}
			w.load()
			w.decide("key:a", time.Hour)
			w.run()
			time.Sleep(time.Second)
			if s := w.Stats(); s.Failures == 0 {
				t.Errorf("got %+v, want failures", s)
			}
		})
	})
}

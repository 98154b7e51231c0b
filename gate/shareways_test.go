package gate

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// A caller whose closures allow it is judged by its only share, without a second look at them. These tests compare that with the
// way that looks at all of them: a second caller of the same request, which nothing ever refuses, has a share too.

// way is a Set, and how it is asked about the caller "x".
type way struct {
	set *Set
	ask func(s *Set, now time.Time) Verdict
}

// generous gives the caller "key:y" as many permits as nobody asks for.
func generous() schemas.Decision {
	d := sharing("other", "key:y", 0, 3600, 1<<40, 1, 1)
	d.Share.Period = int64(time.Hour)
	return d
}

func ways() map[string]way {
	one := func(s *Set, now time.Time) Verdict { return s.CheckAt(callersOf(s, "key", "x"), now) }
	two := func(s *Set, now time.Time) Verdict { return s.CheckAt(callersOf(s, "key", "x", "y"), now) }
	w := map[string]way{"one caller": {New(exact()), one}, "two callers": {New(exact()), two}}
	for _, w := range w {
		w.set.ApplyAt(at(0), []schemas.Decision{generous()})
		cc := w.set.callerOf("y")
		w.set.writer.table.arena.share(cc.terms).quota.whole = 1 << 31 // as if it had measured all of the demand
	}
	return w
}

// callerOf returns a closed caller of kind "key".
func (s *Set) callerOf(id string) *closedCaller {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gates["key"]
	return s.writer.table.find(g.sum(id), g.tag(), id)
}

// demandOf returns what the cells of a caller's shares have counted.
func (s *Set) demandOf(id string) (demand []uint64) {
	cc := s.callerOf(id)
	for i := range cc.len() {
		if c := cc.closure(i); c.share() {
			cell := s.cells.at(s.writer.table.arena.share(c.terms).cell)
			for n := range cell.demand {
				demand = append(demand, cell.demand[n].Load())
			}
		}
	}
	return demand
}

// drawShared draws a decision about the caller "x" at so many hundredths of a second after noon: spans and perhaps a share.
func drawShared(t *rapid.T, now int) schemas.Decision {
	draw := func(name string, from, to int) float64 {
		return float64(now+rapid.IntRange(from, to).Draw(t, name)) / 100
	}
	rule := rapid.SampledFrom([]string{"r", "q"}).Draw(t, "rule")
	d := closing(rule, "key:x", draw("close_at", -100, 100), draw("until", -100, 100))
	d.Early = rapid.Bool().Draw(t, "early")
	d.Mode = rapid.SampledFrom([]schemas.Mode{schemas.ModeEnforce, schemas.ModeEnforce, schemas.ModeShadow}).Draw(t, "mode")
	if d.CloseAt >= d.Until || rapid.IntRange(0, 2).Draw(t, "open") > 0 {
		d.CloseAt, d.Until = at(0).UnixNano(), at(0).UnixNano()
	}
	if rapid.IntRange(0, 4).Draw(t, "share") > 0 {
		from := draw("from", -150, 150)
		permits := rapid.SampledFrom([]int64{0, 1, 3, 10}).Draw(t, "permits")
		d.Share = sharing(rule, "key:x", from, from+draw("for", 1, 300)-float64(now)/100, permits, 4, draw("measured", -50, 0)).Share
		d.Share.Period = int64(rapid.SampledFrom([]time.Duration{time.Second, 300 * time.Millisecond}).Draw(t, "period"))
	}
	return d
}

// TestOneShareOrMany: whether a request is judged by the only share of its caller or by all shares of all callers, the verdict
// about the caller and the demand that is counted are the same.
func TestOneShareOrMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ways := ways()
		for now := 0; now < 1000; now += rapid.IntRange(1, 60).Draw(t, "pause") {
			if rapid.IntRange(0, 3).Draw(t, "decide") == 0 {
				d := drawShared(t, now)
				for _, w := range ways {
					w.set.ApplyAt(at(float64(now)/100), []schemas.Decision{d})
				}
			}
			got, want := ways["one caller"], ways["two callers"]
			for range rapid.IntRange(1, 4).Draw(t, "requests") {
				v := got.ask(got.set, at(float64(now)/100))
				if full := want.ask(want.set, at(float64(now)/100)); v != full {
					t.Fatalf("at %d: got %+v, want %+v", now, v, full)
				}
			}
			counted, full := got.set.demandOf("x"), want.set.demandOf("x")
			for i := range full {
				if counted[i] != full[i] {
					t.Fatalf("at %d: got a demand of %x, want %x", now, counted, full)
				}
			}
		}
	})
}

// TestClosedAsksAShadowShare: Closed says that the caller is open when a share in mode shadow has no permit left, and takes
// nothing from the share of another rule for what that one refuses.
func TestClosedAsksAShadowShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g, now := s.Gate("key"), time.Now()
		d := decision("shadowed", now, now)
		d.Mode = schemas.ModeShadow
		d.Share = &schemas.Share{
			From: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(), Period: int64(time.Second), Permits: 1, Demand: 1,
			DemandFrom: now.Add(-time.Second).UnixNano(), DemandUntil: now.UnixNano(),
		}
		s.Apply([]schemas.Decision{d})
		for range 5 {
			if g.Closed("abc") {
				t.Fatal("got closed by a share in mode shadow")
			}
		}
		if v := s.Check(callersOf2(g, "abc")); v.Closed || !v.Shadow || v.Rule != "shadowed" {
			t.Errorf("got %+v, want what would have been refused", v)
		}
		d.Rule, d.Mode = "enforcing", schemas.ModeEnforce
		s.Apply([]schemas.Decision{d})
		for n, want := range []bool{false, true, true} {
			if closed := g.Closed("abc"); closed != want {
				t.Errorf("request %d: got closed %v by two shares with a permit each, want %v", n, closed, want)
			}
		}
	})
}

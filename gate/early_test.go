package gate

import (
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// early makes the first closure of a decision early.
func early(d schemas.Decision) schemas.Decision {
	d.Early = true
	return d
}

// held makes the first closure of a decision early because of requests in flight.
func held(d schemas.Decision) schemas.Decision {
	d.Early, d.Held = true, true
	return d
}

// then gives a decision a next closure, from and to seconds after noon.
func then(d schemas.Decision, from, to float64, early bool) schemas.Decision {
	d.Next = schemas.Span{CloseAt: at(from).UnixNano(), Until: at(to).UnixNano(), Early: early}
	return d
}

func TestTwoClosuresOfOneRuleInTime(t *testing.T) {
	const ip = "ip:203.0.113.9"
	type step struct {
		at     float64
		apply  []schemas.Decision
		tick   bool
		closed bool
		early  bool
		shadow bool
		until  float64
	}
	one := func(ds ...schemas.Decision) []schemas.Decision { return ds }
	stories := map[string][]step{
		"an early closure closes, and ends by itself": {
			{at: 0, apply: one(early(closing("a", ip, 1, 2)))},
			{at: 1, closed: true, early: true, until: 2},
			{at: 1.999999999, closed: true, early: true, until: 2},
			{at: 2},
		},
		"an early closure that is confirmed is early no more": {
			{at: 0, apply: one(early(closing("a", ip, 1, 2)))},
			{at: 1.5, closed: true, early: true, until: 2},
			{at: 1.6, apply: one(closing("a", ip, 1.2, 9)), closed: true, until: 9},
			{at: 8.9, closed: true, until: 9},
			{at: 9},
		},
		"both closures hold, and the caller is open between them": {
			{at: 0, apply: one(then(closing("a", ip, 0, 5), 7, 8, true)), closed: true, until: 5},
			{at: 4.999999999, closed: true, until: 5},
			{at: 5},
			{at: 6.999999999, tick: true},
			{at: 7, closed: true, early: true, until: 8},
			{at: 8},
		},
		"the next closure may begin when the first one ends": {
			{at: 0, apply: one(then(closing("a", ip, 0, 5), 5, 6, true)), closed: true, until: 6},
			{at: 5, closed: true, early: true, until: 6},
			{at: 6},
		},
		"a decision that comes when its first closure is over closes at its next": {
			{at: 6, apply: one(then(closing("a", ip, 0, 5), 7, 8, true))},
			{at: 7, closed: true, early: true, until: 8},
			{at: 8},
		},
		"the newest decision replaces both": {
			{at: 0, apply: one(then(closing("a", ip, 0, 5), 7, 8, true)), closed: true, until: 5},
			{at: 1, apply: one(closing("a", ip, 0, 5)), closed: true, until: 5},
			{at: 7},
			{at: 7.1, apply: one(then(closing("a", ip, 0, 5), 7, 9, true)), closed: true, early: true, until: 9},
			{at: 7.2, apply: one(then(closing("a", ip, 7, 12), 14, 15, true)), closed: true, until: 12},
			{at: 14, closed: true, early: true, until: 15},
		},
		"nothing reopens when a decision about the next closure arrives": {
			{at: 0, apply: one(closing("a", ip, 0, 5)), closed: true, until: 5},
			{at: 3, apply: one(then(closing("a", ip, 0, 5), 6, 7, true)), closed: true, until: 5},
			{at: 4, apply: one(then(closing("a", ip, 0, 5), 6.5, 7.5, true)), closed: true, until: 5},
			{at: 6},
			{at: 6.5, closed: true, early: true, until: 7.5},
		},
		"an opening ends both": {
			{at: 0, apply: one(then(closing("a", ip, 0, 5), 7, 8, true)), closed: true, until: 5},
			{at: 1, apply: one(closing("a", ip, 0, 0))},
			{at: 7},
		},
		"the closures of another rule are left alone": {
			{at: 0, apply: one(then(closing("a", ip, 0, 2), 4, 5, true), then(closing("b", ip, 0, 3), 6, 9, true)), closed: true, until: 3},
			{at: 1, apply: one(closing("a", ip, 0, 0)), closed: true, until: 3},
			{at: 4},
			{at: 6, closed: true, early: true, until: 9},
		},
		"while a counted closure is in force beside it, an early one makes no request early": {
			{at: 0, apply: one(early(closing("a", ip, 0, 2)), closing("b", ip, 1, 5)), closed: true, early: true, until: 5},
			{at: 1, closed: true, until: 5},
			{at: 4, apply: one(early(closing("a", ip, 4, 6))), closed: true, until: 6},
			{at: 5, closed: true, early: true, until: 6},
		},
		"a counted closure of a shadow rule does not make it counted": {
			{at: 0, apply: one(early(closing("a", ip, 0, 2)), shadowed(closing("b", ip, 0, 5))),
				closed: true, early: true, shadow: true, until: 2},
			{at: 3, shadow: true, until: 5},
		},
		"a held closure closes, and what it refuses is not early": {
			{at: 0, apply: one(held(closing("a", ip, 1, 9)))},
			{at: 1, closed: true, until: 9},
			{at: 8.999999999, tick: true, closed: true, until: 9},
			{at: 9},
		},
		"a held closure of 20 s has no jitter": {
			{at: 0, apply: one(held(closing("a", ip, 0, 20))), closed: true, until: 20},
			{at: 20},
		},
		"beside a held closure an early one makes no request early": {
			{at: 0, apply: one(early(closing("a", ip, 0, 4)), held(closing("b", ip, 1, 3))), closed: true, early: true, until: 4},
			{at: 1, closed: true, until: 4},
			{at: 3, closed: true, early: true, until: 4},
		},
		"a held closure of a shadow rule does not make an early one counted": {
			{at: 0, apply: one(early(closing("a", ip, 0, 2)), shadowed(held(closing("b", ip, 0, 5)))),
				closed: true, early: true, shadow: true, until: 2},
			{at: 3, shadow: true, until: 5},
		},
		"what follows a held closure may be early": {
			{at: 0, apply: one(then(held(closing("a", ip, 0, 2)), 2, 3, true)), closed: true, until: 3},
			{at: 2, closed: true, early: true, until: 3},
			{at: 3},
		},
		"a held closure that is confirmed, and one that was early first": {
			{at: 0, apply: one(early(closing("a", ip, 0, 2))), closed: true, early: true, until: 2},
			{at: 1, apply: one(held(closing("a", ip, 0, 6))), closed: true, until: 6},
			{at: 2, apply: one(closing("a", ip, 0, 8)), closed: true, until: 8},
		},
		"an early closure of a shadow rule blocks nobody": {
			{at: 0, apply: one(shadowed(early(closing("a", ip, 0, 2)))), shadow: true, until: 2},
		},
	}
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			s := New(Options{Logger: quiet()}) // with jitter: these closures are too short for it
			for i, p := range steps {
				s.ApplyAt(at(p.at), p.apply)
				if p.tick {
					s.Tick(at(p.at))
				}
				v := check(t, s, p.at, ip)
				if v.Closed != p.closed || v.ClosedFor(0) != p.closed || v.EarlyFor(0) != p.early || v.Shadow != p.shadow {
					t.Errorf("step %d at %v: got %+v, want %+v", i, p.at, v, p)
				}
				if p.until != 0 && (!v.Until.Equal(at(p.until)) || v.RetryAfter != at(p.until).Sub(at(p.at))) {
					t.Errorf("step %d at %v: got until %v, retry after %v, want until %v", i, p.at, v.Until, v.RetryAfter, at(p.until))
				}
				s.mu.Lock()
				s.rebuild(at(p.at).UnixNano())
				s.publish()
				s.mu.Unlock()
				if again := check(t, s, p.at, ip); again != v {
					t.Errorf("step %d at %v: got %+v after a rebuild, want %+v", i, p.at, again, v)
				}
				s.verify(t)
			}
			if st := s.Status(); st.Invalid != 0 {
				t.Errorf("got %d invalid decisions, want none", st.Invalid)
			}
		})
	}
}

// TestEarlyIsOfEachCaller: of the callers of one request some are closed early, some by a count, some are open.
func TestEarlyIsOfEachCaller(t *testing.T) {
	s := New(exact())
	s.ApplyAt(at(0), []schemas.Decision{
		early(closing("a", "ip:192.0.2.1", 0, 10)), closing("b", "key:k", 0, 20),
		early(closing("a", "tenant:t", 0, 10)), closing("b", "tenant:t", 0, 20), early(closing("a", "user:u", 5, 10)),
	})
	v := check(t, s, 1, "ip:192.0.2.1", "key:k", "tenant:t", "user:u", "user:v")
	for i, want := range [][2]bool{{true, true}, {true, false}, {true, false}, {false, false}, {false, false}} {
		if v.ClosedFor(i) != want[0] || v.EarlyFor(i) != want[1] {
			t.Errorf("caller %d: got closed %v, early %v, want %v", i, v.ClosedFor(i), v.EarlyFor(i), want)
		}
	}
	if v = check(t, s, 1, "user:v", "key:k", "ip:192.0.2.1"); v.EarlyFor(0) || v.EarlyFor(1) || !v.EarlyFor(2) {
		t.Errorf("got %+v, want the last caller early", v)
	}
	s.SetMode(Shadow)
	if v = check(t, s, 1, "ip:192.0.2.1"); v.EarlyFor(0) || v.ClosedFor(0) || !v.Shadow {
		t.Errorf("got %+v in mode shadow, want nobody blocked", v)
	}
	if got := refusalsOf(s); got["b"] != [2]uint64{2, 0} || got["a"] != [2]uint64{0, 1} {
		t.Errorf("got refusals %v, want two of b and one of a: early ones count as others do", got)
	}
}

// TestEarlyUnderTwoSecrets: a request is early only if no counted closure is in force under either id.
func TestEarlyUnderTwoSecrets(t *testing.T) {
	underA, underB := hasher(t, "a").Kind("key").ID("k"), hasher(t, "b").Kind("key").ID("k")
	for _, p := range []struct {
		earlyA, earlyB bool
	}{{true, true}, {true, false}, {false, true}, {false, false}} {
		s := New(Options{MaxJitter: -1, Logger: quiet(), IDs: schemas.IDs{Hash: hasher(t, "ab")}})
		a, b := closing("r", "key:"+underA, 0, 10), closing("r", "key:"+underB, 0, 10)
		a.Early, b.Early = p.earlyA, p.earlyB
		s.ApplyAt(at(0), []schemas.Decision{a, b})
		if v := check(t, s, 1, "key:k"); !v.ClosedFor(0) || v.EarlyFor(0) != (p.earlyA && p.earlyB) {
			t.Errorf("%+v: got %+v, early %v", p, v, v.EarlyFor(0))
		}
	}
}

// TestTheBitsOfAClosureLieAboveEveryRef: the last ref of the largest arena has none of them.
func TestTheBitsOfAClosureLieAboveEveryRef(t *testing.T) {
	a := newArena(math.MaxInt)
	a.used, a.free = len(a.chunks), chunkSize-granule // as if all but the last bytes were in use
	a.chunks[a.used-1] = new(chunk)
	if _, ref := a.alloc(granule); ref&termBits != 0 || ref+1 < heldBit {
		t.Errorf("got %#x as the last ref, want the last one below %#x", ref, heldBit)
	}
	if a.room() {
		t.Error("got room beyond the last ref")
	}
	if c := (closure{terms: termBits}); !c.shadow() || !c.early() || !c.held() || !c.share() || bits.OnesCount32(termBits) != 4 {
		t.Errorf("got shadow %v, share %v, early %v, held %v, of bits %#x, want each by a bit of its own",
			c.shadow(), c.share(), c.early(), c.held(), uint32(termBits))
	}
}

// TestTheQuickPathKnowsTheClosureInForce: the next closure lasts longer than the one in force, and does not hide it.
func TestTheQuickPathKnowsTheClosureInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g, now := s.Gate("key"), time.Now()
		d := decision("a", now, now.Add(time.Minute))
		d.Next = schemas.Span{CloseAt: now.Add(2 * time.Minute).UnixNano(), Until: now.Add(time.Hour).UnixNano(), Early: true}
		s.Apply([]schemas.Decision{d})
		stop := running(t, s)
		defer stop()
		quick := func() bool {
			return s.view.Load().closedFast(s, g.sum("abc"), tagAndLen(g.tag(), "abc"), "abc")
		}
		if !quick() {
			t.Error("got no answer from the quick path, want closed by the closure in force")
		}
		<-time.After(90 * time.Second)
		if quick() || g.Closed("abc") {
			t.Error("got closed between the closures, want open")
		}
		<-time.After(time.Minute)
		s.Apply([]schemas.Decision{d}) // a repeat
		if !g.Closed("abc") || g.Closed("other") {
			t.Error("got open in the next closure, want closed")
		}
	})
}

// TestGarbageClosesNobodyForEver: whatever times a decision has, it is applied or invalid; the books stay right, and nothing is
// closed for longer than MaxClosure.
func TestGarbageClosesNobodyForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Options{Logger: quiet()})
		when := rapid.OneOf(rapid.Int64(), rapid.Int64Range(at(-50).UnixNano(), at(50).UnixNano()),
			rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt64}))
		n := rapid.IntRange(1, 8).Draw(t, "n")
		for i := range n {
			d := closing(fmt.Sprint("r", rapid.IntRange(0, 2).Draw(t, "rule")), "ip:192.0.2.1", 0, 0)
			d.Mode = rapid.SampledFrom([]schemas.Mode{1, 2, 1, 0, 77}).Draw(t, "mode")
			d.CloseAt, d.Until, d.Early = when.Draw(t, "from"), when.Draw(t, "until"), rapid.Bool().Draw(t, "early")
			d.Next = schemas.Span{CloseAt: when.Draw(t, "next from"), Until: when.Draw(t, "next until"), Early: rapid.Bool().Draw(t, "e")}
			s.ApplyAt(at(float64(i)), []schemas.Decision{d})
			var c Callers
			c.AddAddr(s.Gate("ip"), netip.MustParseAddr("192.0.2.1"))
			v := s.CheckAt(&c, at(float64(i)))
			if longest := 6 * (schemas.MaxClosure + DefaultMaxJitter); (v.Closed || v.Shadow) && (v.RetryAfter <= 0 || v.RetryAfter > longest) {
				t.Fatalf("got %+v, want it to end after now, and within %v", v, longest)
			}
			s.verify(t)
		}
		if st := s.Status(); st.Applied+st.Invalid != uint64(n) {
			t.Fatalf("got %d applied, %d invalid, want %d in all", st.Applied, st.Invalid, n)
		}
	})
}

// TestReadersNeverSeeAGapBetweenTwoDecisions: decisions move a caller from the first closure to the next and back. Each of them
// closes it at the time that readers ask about.
func TestReadersNeverSeeAGapBetweenTwoDecisions(t *testing.T) {
	s := New(exact())
	g := s.Gate("key")
	first, next := closing("a", "key:x", 0, 1e6), then(early(closing("a", "key:x", 0, 0.5)), 0.5, 2e6, true)
	first.Evidence.Limit, next.Evidence.Limit = 1, 2
	s.ApplyAt(at(0), []schemas.Decision{first})
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				v := s.CheckAt(callersOf2(g, "x"), at(1))
				if !v.Closed || v.EarlyFor(0) != (v.Limit == 2) || !v.Until.Equal(at(float64(v.Limit)*1e6)) {
					t.Errorf("got %+v, early %v, want the whole of one decision", v, v.EarlyFor(0))
					return
				}
			}
		})
	}
	for i := range 5000 {
		s.ApplyAt(at(1), []schemas.Decision{[]schemas.Decision{next, first}[i%2]})
	}
	done.Store(true)
	wg.Wait()
	s.verify(t)
}

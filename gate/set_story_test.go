package gate

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Peer bug caddy-crowdsec-bouncer 129: of two decisions about one caller the one that came last hid the other, and its
// end let the caller through. Here, in any order, the caller is closed exactly while any of them says so.
func TestOverlappingDecisionsNeverHideTheStricter(t *testing.T) {
	const ip = "ip:203.0.113.9"
	spans := [][2]float64{{0, 10}, {2, 30}, {5, 6}, {0, 3}, {35, 40}}
	var permute func(done, rest []int)
	permute = func(done, rest []int) {
		if len(rest) > 0 {
			for i := range rest {
				permute(append(slices.Clone(done), rest[i]), slices.Delete(slices.Clone(rest), i, i+1))
			}
			return
		}
		s := New(exact())
		for _, i := range done {
			s.ApplyAt(at(0), []schemas.Decision{closing(fmt.Sprint("rule", i), ip, spans[i][0], spans[i][1])})
		}
		for now := 0.0; now < 45; now++ {
			want := slices.ContainsFunc(spans, func(p [2]float64) bool { return p[0] <= now && now < p[1] })
			if got := check(t, s, now, ip); got.Closed != want {
				t.Fatalf("applied in the order %v: got %+v at %v s, want closed %v", done, got, now, want)
			}
			s.Tick(at(now))
		}
		s.verify(t)
	}
	permute(nil, []int{0, 1, 2, 3, 4})
}

// A process that was stopped (SIGSTOP, a suspended machine, a long collection) answers its first request with the right
// time: no ticker has run since, and none is needed.
func TestExpiredClosureIsNeverServedAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(exact())
		g := s.Gate("key")
		now := time.Now()
		s.Apply([]schemas.Decision{{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "abc"}, Mode: schemas.ModeEnforce,
			CloseAt: now.UnixNano(), Until: now.Add(time.Minute).UnixNano(),
		}})
		var c Callers
		c.Add(g, "abc")
		if !g.Closed("abc") || !s.Check(&c).Closed {
			t.Fatal("got open, want closed")
		}
		<-time.After(time.Minute - 1) // in the bubble: no Tick, no Apply, no goroutine awake
		if !g.Closed("abc") || s.Check(&c).RetryAfter != 1 {
			t.Fatal("got open, want closed to the last nanosecond")
		}
		<-time.After(1)
		if g.Closed("abc") || s.Check(&c).Closed {
			t.Fatal("got closed, want open at until")
		}
		<-time.After(3 * time.Minute)
		if g.Closed("abc") || s.Check(&c).Closed {
			t.Fatal("got closed, want open after the pause")
		}
		s.Tick(time.Now())
		if st := s.Status(); st.Closed != 0 || st.Expired != 1 {
			t.Errorf("got %d closed, %d expired, want 0 and 1 after a sweep", st.Closed, st.Expired)
		}
	})
}

func TestModes(t *testing.T) {
	const ip = "ip:203.0.113.9"
	s := New(exact())
	s.Apply([]schemas.Decision{{
		Rule: "r", Caller: schemas.Caller{Kind: "ip", ID: "203.0.113.9"}, Mode: schemas.ModeEnforce,
		CloseAt: time.Now().UnixNano(), Until: time.Now().Add(time.Hour).UnixNano(),
	}})
	seconds := time.Since(noon).Seconds()
	for _, step := range []struct {
		mode           Mode
		closed, shadow bool
	}{
		{Enforce, true, false}, {Shadow, false, true}, {Off, false, false}, {Shadow, false, true}, {Enforce, true, false},
	} {
		s.SetMode(step.mode)
		v := check(t, s, seconds, ip)
		if v.Closed != step.closed || v.Shadow != step.shadow || v.ClosedFor(0) != step.closed {
			t.Errorf("%v: got %+v, want closed %v, shadow %v", step.mode, v, step.closed, step.shadow)
		}
		if got := s.Gate("ip").Closed("203.0.113.9"); got != step.closed {
			t.Errorf("%v: got Closed %v, want %v", step.mode, got, step.closed)
		}
		if got := s.Status().Mode; got != step.mode {
			t.Errorf("got mode %v, want %v", got, step.mode)
		}
	}
}

func TestDecisionsAppliedWhileOffHoldAfterwards(t *testing.T) {
	o := exact()
	o.Mode = Off
	s := New(o)
	s.ApplyAt(at(0), []schemas.Decision{closing("a", "key:x", 0, 10)})
	if v := check(t, s, 1, "key:x"); v.Closed || v.Shadow {
		t.Errorf("got %+v while off", v)
	}
	s.SetMode(Enforce)
	if v := check(t, s, 1, "key:x"); !v.Closed {
		t.Errorf("got %+v, want closed", v)
	}
}

func TestVerdictOfSeveralCallers(t *testing.T) {
	s := New(exact())
	s.ApplyAt(at(0), []schemas.Decision{
		closing("per-ip", "ip:192.0.2.1", 0, 10), closing("per-key", "key:k", 0, 20),
		shadowed(closing("per-tenant", "tenant:t", 0, 90)),
	})
	v := check(t, s, 1, "user:u", "ip:192.0.2.1", "key:k", "tenant:t")
	if !v.Closed || v.Rule != "per-key" || v.Caller.String() != "key:k" || v.RetryAfter != 19*time.Second || !v.Shadow {
		t.Errorf("got %+v, want closed by per-key, and shadow", v)
	}
	for i, want := range []bool{false, true, true, false} {
		if v.ClosedFor(i) != want {
			t.Errorf("got ClosedFor(%d) %v, want %v", i, !want, want)
		}
	}
	v = check(t, s, 1, "tenant:t", "user:u")
	if v.Closed || !v.Shadow || v.Rule != "per-tenant" || v.ClosedFor(0) {
		t.Errorf("got %+v, want the shadow rule's verdict", v)
	}
}

// TestACallerThatWasOpenedHidesNoOther: the filter still knows it.
func TestACallerThatWasOpenedHidesNoOther(t *testing.T) {
	s := New(exact())
	s.ApplyAt(at(0), []schemas.Decision{closing("r", "key:opened", 0, 10), closing("r", "key:closed", 0, 10), closing("r", "key:opened", 0, 0)})
	if v := check(t, s, 1, "key:opened", "key:closed"); v.ClosedFor(0) || !v.ClosedFor(1) {
		t.Errorf("got %+v, want the second caller closed", v)
	}
}

func TestDecisionsThatMakeNoSense(t *testing.T) {
	good := closing("r", "key:x", 0, 10)
	for name, spoil := range map[string]func(*schemas.Decision){
		"no kind":         func(d *schemas.Decision) { d.Caller.Kind = "" },
		"kind with colon": func(d *schemas.Decision) { d.Caller.Kind = "a:b" },
		"no id":           func(d *schemas.Decision) { d.Caller.ID = "" },
		"long id":         func(d *schemas.Decision) { d.Caller.ID = strings.Repeat("x", schemas.MaxCallerID+1) },
		"no mode":         func(d *schemas.Decision) { d.Mode = 0 },
		"unknown mode":    func(d *schemas.Decision) { d.Mode = 7 },
		"long rule":       func(d *schemas.Decision) { d.Rule = strings.Repeat("r", maxRule+1) },
		"next, reversed":  func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: d.Until + 2, Until: d.Until + 1} },
		"next, empty":     func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: d.Until + 1, Until: d.Until + 1} },
		"next, overlaps":  func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: d.Until - 1, Until: d.Until + 9} },
		"next, before":    func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: d.CloseAt - 9, Until: d.CloseAt} },
		"next, too long": func(d *schemas.Decision) {
			d.Next = schemas.Span{CloseAt: d.Until, Until: d.Until + int64(schemas.MaxClosure) + 1}
		},
		"next, length overflows": func(d *schemas.Decision) {
			d.CloseAt, d.Until, d.Next = math.MinInt64, -9, schemas.Span{CloseAt: -9, Until: math.MaxInt64}
		},
		"next, early only": func(d *schemas.Decision) { d.Next = schemas.Span{Early: true} },
		"next of an opening": func(d *schemas.Decision) {
			d.Until, d.Next = d.CloseAt, schemas.Span{CloseAt: d.Until, Until: d.Until + 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(exact())
			d := good
			spoil(&d)
			s.ApplyAt(at(0), []schemas.Decision{d, good})
			if st := s.StatusAt(at(0)); st.Invalid != 1 || st.Applied != 1 || st.Closed != 1 {
				t.Errorf("got %+v, want the bad one dropped and the good one applied", st)
			}
		})
	}
}

// TestDecisionsAtTheirBounds are applied: the longest name of a rule, and the shortest and the longest next closure.
func TestDecisionsAtTheirBounds(t *testing.T) {
	for name, change := range map[string]func(*schemas.Decision){
		"long rule":   func(d *schemas.Decision) { d.Rule = strings.Repeat("r", maxRule) },
		"long id":     func(d *schemas.Decision) { d.Caller.ID = strings.Repeat("x", schemas.MaxCallerID) },
		"next, short": func(d *schemas.Decision) { d.Next = schemas.Span{CloseAt: d.Until, Until: d.Until + 1} },
		"next, long": func(d *schemas.Decision) {
			d.Next = schemas.Span{CloseAt: d.Until, Until: d.Until + int64(schemas.MaxClosure)}
		},
		"first one short": func(d *schemas.Decision) { d.Until = d.CloseAt + 1 },
	} {
		s, d := New(exact()), closing("r", "key:x", 0, 10)
		change(&d)
		s.ApplyAt(at(0), []schemas.Decision{d})
		if v := check(t, s, 0, d.Caller.String()); !v.Closed || v.Rule != d.Rule || s.Status().Invalid != 0 {
			t.Errorf("%s: got %+v, want closed", name, v)
		}
	}
}

// TestNothingIsHeldOfAnOpening, in whatever form it comes: it takes no room, and no one who looks into the gates sees a closure.
func TestNothingIsHeldOfAnOpening(t *testing.T) {
	for _, span := range [][2]float64{{0, 0}, {5, 5}, {5, 4}, {5, -5}, {-5, 1}} { // seconds after noon; it is applied at 1 s
		s := New(exact())
		s.ApplyAt(at(0), []schemas.Decision{closing("r", "key:x", 0, 10), closing("other", "key:x", 0, 20)})
		s.ApplyAt(at(1), []schemas.Decision{closing("r", "key:x", span[0], span[1]), closing("r", "key:y", span[0], span[1])})
		x, y := s.Holds(schemas.Caller{Kind: "key", ID: "x"}, at(0)), s.Holds(schemas.Caller{Kind: "key", ID: "y"}, at(0))
		if len(x) != 1 || x[0].Rule != "other" || len(y) != 0 || s.Status().Closed != 1 {
			t.Errorf("opened from %v to %v s: got %+v and %+v, want the closure of the other rule alone", span[0], span[1], x, y)
		}
	}
}

// TestOnlyAddressesAreReadAsAddresses: decisions may write an address in any form. Other kinds have texts that only look like
// addresses.
func TestOnlyAddressesAreReadAsAddresses(t *testing.T) {
	s := New(Options{Logger: quiet()})
	closeNow(s, "ip", "::ffff:203.0.113.9", "2001:DB8:0:0::", "no address")
	closeNow(s, "key", "2001:DB8:0:0::")
	ips, keys := s.Gate("ip"), s.Gate("key")
	for id, want := range map[string]bool{"203.0.113.9": true, "2001:db8::1": true, "no address": true, "203.0.113.10": false, "another": false} {
		if got := ips.Closed(id); got != want {
			t.Errorf("%s: got closed %v, want %v", id, got, want)
		}
	}
	for id, want := range map[string]bool{"2001:DB8:0:0::": true, "2001:db8::": false} {
		if got := keys.Closed(id); got != want {
			t.Errorf("the key %s: got closed %v, want %v", id, got, want)
		}
	}
	for _, id := range []string{"203.0.113.9", "2001:db8::", "no address"} {
		if v := s.Check(callersOf2(ips, id)); v.Caller.ID != id {
			t.Errorf("%s: got %+v, want its text as it is counted", id, v)
		}
	}
	if ips.ClosedAddr(netip.Addr{}) {
		t.Error("got no address closed")
	}
}

// TestDecidedIsWhenDecisionsCame last, and not when somebody had none.
func TestDecidedIsWhenDecisionsCame(t *testing.T) {
	s := New(exact())
	if s.ApplyAt(at(1), nil); !s.Status().Decided.IsZero() {
		t.Errorf("got %v before the first decision, want no time", s.Status().Decided)
	}
	s.ApplyAt(at(2), []schemas.Decision{closing("r", "key:x", 0, 10)})
	if s.ApplyAt(at(3), nil); !s.Status().Decided.Equal(at(2)) {
		t.Errorf("got %v, want when the decision came", s.Status().Decided)
	}
}

func TestAbsurdTimesCloseNobodyForLong(t *testing.T) {
	const minute = int64(time.Minute)
	now, year := noon.UnixNano(), int64(schemas.MaxClosure)
	for _, p := range []struct {
		closeAt, until int64
		closed         bool
		want           int64 // until
	}{
		{now, now + 10*year, true, now + year},
		{now, math.MaxInt64, true, now + year},
		{now - minute, now + year, true, now - minute + year},
		{math.MinInt64, math.MaxInt64, false, 0},
		{math.MinInt64, math.MinInt64, false, 0},
		{math.MaxInt64, math.MaxInt64, false, 0},
		{math.MaxInt64 - 1, math.MaxInt64, false, 0},
		{math.MaxInt64, math.MinInt64, false, 0},
		{-1, now - 10*year, false, 0},
		{now + 10*year, now + 11*year, false, 0},
		{0, 0, false, 0},
		{now, -now, false, 0},
	} {
		for _, o := range []Options{exact(), {Logger: quiet()}} {
			s := New(o)
			d := closing("r", "key:x", 0, 0)
			d.CloseAt, d.Until = p.closeAt, p.until
			s.ApplyAt(noon, []schemas.Decision{d})
			v := check(t, s, 0, "key:x")
			if v.Closed != p.closed {
				t.Fatalf("closeAt %d, until %d: got %+v, want closed %v", p.closeAt, p.until, v, p.closed)
			}
			if late := v.Until.UnixNano() - p.want; p.closed && (late < 0 || late > int64(max(o.MaxJitter, 0)+DefaultMaxJitter)) {
				t.Errorf("closeAt %d, until %d: got until %v, want %v", p.closeAt, p.until, v.Until, time.Unix(0, p.want))
			}
			s.verify(t)
		}
	}
}

// TestGateOfABadKindPanics, so that no server records callers of floodgate's own kinds: a recorder takes its callers from gates.
func TestGateOfABadKindPanics(t *testing.T) {
	for _, kind := range []string{"IP", schemas.KindCanary, schemas.KindTally, schemas.KindLevel} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("got a gate of the kind %q, want a panic", kind)
				}
			}()
			New(exact()).Gate(kind)
		}()
	}
}

func TestDecisionsCannotTakeAllKinds(t *testing.T) {
	s := New(exact())
	for i := range 300 {
		s.ApplyAt(at(0), []schemas.Decision{closing("r", fmt.Sprintf("k%d:x", i), 0, 10)})
	}
	if st := s.StatusAt(at(0)); st.Applied != 128 || st.Invalid != 172 || st.Closed != 128 {
		t.Errorf("got %d applied, %d invalid, %d closed, want 128, 172, 128", st.Applied, st.Invalid, st.Closed)
	}
	if v := check(t, s, 1, "k127:x"); !v.Closed {
		t.Errorf("got %+v for the last kind decided, want closed", v)
	}
	for i := range 128 {
		s.Gate(fmt.Sprint("mine", i))
	}
	s.ApplyAt(at(0), []schemas.Decision{closing("r", "mine127:x", 0, 10)})
	if v := check(t, s, 1, "mine127:x"); !v.Closed {
		t.Errorf("got %+v for the last kind of all, want closed", v)
	}
	defer func() {
		if recover() == nil {
			t.Error("got a gate of kind 257, want a panic")
		}
	}()
	s.Gate("one-too-many")
}

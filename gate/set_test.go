package gate

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// noon is when stories begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// exact returns options without jitter, so that gates reopen when it was decided.
func exact() Options { return Options{MaxJitter: -1, Logger: quiet()} }

// closing returns an enforcing decision from and to seconds after noon.
func closing(rule, caller string, from, to float64) schemas.Decision {
	c, err := schemas.ParseCaller(caller)
	if err != nil {
		panic(err)
	}
	return schemas.Decision{
		Rule: rule, Caller: c, Mode: schemas.ModeEnforce, CloseAt: at(from).UnixNano(), Until: at(to).UnixNano(),
		Evidence: schemas.Evidence{Limit: 100, Window: int64(time.Minute)},
	}
}

func shadowed(d schemas.Decision) schemas.Decision {
	d.Mode = schemas.ModeShadow
	return d
}

// check judges a request of these callers, seconds after noon.
func check(t *testing.T, s *Set, seconds float64, callers ...string) Verdict {
	t.Helper()
	var c Callers
	for _, name := range callers {
		p, err := schemas.ParseCaller(name)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Add(s.Gate(p.Kind), p.ID) {
			t.Fatalf("caller %q was not added", name)
		}
	}
	return s.CheckAt(&c, at(seconds))
}

func TestClosuresInTime(t *testing.T) {
	const ip = "ip:203.0.113.9"
	type step struct {
		at     float64
		apply  []schemas.Decision
		tick   bool
		caller string // ip where empty
		closed bool
		shadow bool
		rule   string
		until  float64
	}
	one := func(ds ...schemas.Decision) []schemas.Decision { return ds }
	stories := map[string][]step{
		"no caller is closed at first": {{at: 0}},
		"closed from closeAt, inclusive, to until, exclusive": {
			{at: 0, apply: one(closing("a", ip, 10, 20))},
			{at: 9.999999999},
			{at: 10, closed: true, rule: "a", until: 20},
			{at: 19.999999999, closed: true, rule: "a", until: 20},
			{at: 20},
		},
		"a caller with closeAt in the future is not closed before": {
			{at: 0, apply: one(closing("a", ip, 0, 5), closing("b", ip, 8, 20)), closed: true, rule: "a", until: 5},
			{at: 5},
			{at: 7.9, tick: true},
			{at: 8, closed: true, rule: "b", until: 20},
		},
		"one closure directly after another is one wait": {
			{at: 0, apply: one(closing("a", ip, 0, 5), closing("b", ip, 5, 20)), closed: true, rule: "a", until: 20},
			{at: 5, closed: true, rule: "b", until: 20},
			{at: 20},
		},
		"one wait, in whatever order the decisions came": {
			{at: 0, apply: one(closing("a", ip, 0, 5), closing("d", ip, 15, 20), closing("c", ip, 10, 15), closing("b", ip, 5, 10)),
				closed: true, rule: "a", until: 20},
			{at: 15, closed: true, rule: "d", until: 20},
		},
		"a shadow closure hides no enforcing one that came later": {
			{at: 0, apply: one(shadowed(closing("s", ip, 0, 30)), closing("a", ip, 0, 5), closing("b", ip, 8, 20)),
				closed: true, shadow: true, rule: "a", until: 5},
			{at: 6, shadow: true, rule: "s", until: 30},
			{at: 10, closed: true, shadow: true, rule: "b", until: 20},
		},
		"applying again changes nothing": {
			{at: 0, apply: one(closing("a", ip, 0, 10), closing("a", ip, 0, 10)), closed: true, rule: "a", until: 10},
			{at: 5, apply: one(closing("a", ip, 0, 10)), closed: true, rule: "a", until: 10},
			{at: 10},
			{at: 11, apply: one(closing("a", ip, 0, 10))},
		},
		"a newer decision of the rule replaces the older": {
			{at: 0, apply: one(closing("a", ip, 0, 10)), closed: true, rule: "a", until: 10},
			{at: 1, apply: one(closing("a", ip, 0, 4)), closed: true, rule: "a", until: 4},
			{at: 4},
			{at: 5, apply: one(closing("a", ip, 0, 30)), closed: true, rule: "a", until: 30},
		},
		"until at or before closeAt opens": {
			{at: 0, apply: one(closing("a", ip, 0, 10)), closed: true, rule: "a", until: 10},
			{at: 1, apply: one(closing("a", ip, 5, 5))},
			{at: 2, apply: one(closing("a", ip, 0, 10)), closed: true, rule: "a", until: 10},
			{at: 3, apply: one(closing("a", ip, 5, -5))},
		},
		"opening one rule leaves the other": {
			{at: 0, apply: one(closing("a", ip, 0, 10), closing("b", ip, 0, 20)), closed: true, rule: "b", until: 20},
			{at: 1, apply: one(closing("b", ip, 0, 0)), closed: true, rule: "a", until: 10},
			{at: 2, apply: one(closing("a", ip, 0, 0))},
		},
		"opening a caller that was never closed changes nothing": {
			{at: 0, apply: one(closing("a", ip, 0, 0))},
		},
		"a shadow closure admits, and says so": {
			{at: 0, apply: one(shadowed(closing("a", ip, 0, 10))), shadow: true, rule: "a", until: 10},
			{at: 10},
		},
		"beside an enforcing closure a shadow one is only flagged": {
			{at: 0, apply: one(shadowed(closing("s", ip, 0, 30)), closing("a", ip, 0, 10)),
				closed: true, shadow: true, rule: "a", until: 10},
			{at: 10, shadow: true, rule: "s", until: 30},
			{at: 30},
		},
		"a rule that changes its mode": {
			{at: 0, apply: one(shadowed(closing("a", ip, 0, 10))), shadow: true, rule: "a", until: 10},
			{at: 1, apply: one(closing("a", ip, 0, 10)), closed: true, rule: "a", until: 10},
			{at: 2, apply: one(shadowed(closing("a", ip, 0, 10))), shadow: true, rule: "a", until: 10},
		},
		"the same id of another kind is another caller": {
			{at: 0, apply: one(closing("a", "key:x", 0, 10)), caller: "user:x"},
			{at: 0, caller: "key:x", closed: true, rule: "a", until: 10},
		},
		"an address is one caller however it is written": {
			{at: 0, apply: one(closing("a", ip, 0, 10)), caller: "ip:::ffff:203.0.113.9", closed: true, rule: "a", until: 10},
		},
	}
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			s := New(exact())
			for i, p := range steps {
				s.ApplyAt(at(p.at), p.apply)
				if p.tick {
					s.Tick(at(p.at))
				}
				caller := p.caller
				if caller == "" {
					caller = ip
				}
				v := check(t, s, p.at, caller)
				if v.Closed != p.closed || v.Shadow != p.shadow || v.Rule != p.rule || v.ClosedFor(0) != p.closed {
					t.Errorf("step %d at %v: got %+v, want closed %v, shadow %v, rule %q", i, p.at, v, p.closed, p.shadow, p.rule)
				}
				if p.rule == "" {
					continue
				}
				if !v.Until.Equal(at(p.until)) || v.RetryAfter != at(p.until).Sub(at(p.at)) {
					t.Errorf("step %d at %v: got until %v, retry after %v, want until %v", i, p.at, v.Until, v.RetryAfter, at(p.until))
				}
				if v.Limit != 100 || v.Window != time.Minute || v.CloseAt.After(at(p.at)) {
					t.Errorf("step %d at %v: got %+v, want limit 100 per minute, closed by now", i, p.at, v)
				}
			}
		})
	}
}

// TestDefaults: SECURITY.md says how many callers a Set holds, and package documentation how late it reopens and when it is stale.
func TestDefaults(t *testing.T) {
	o := New(Options{}).options
	if o.MaxClosed != 1_048_576 || o.MaxJitter != 10*time.Second || o.StaleAfter != 3*time.Second || o.Logger != slog.Default() {
		t.Errorf("got %+v", o)
	}
}

// TestNothingToLookUp: requests cost one load until a caller is closed, unless they depend on staleness. Then there is one empty table.
func TestNothingToLookUp(t *testing.T) {
	for policy, want := range map[Policy]bool{Hold: false, Open: false, Closed: true} {
		o := exact()
		o.Stale = policy
		s := New(o)
		for range 3 {
			s.ApplyAt(at(0), []schemas.Decision{closing("r", "key:x", 0, 0)})
			s.Tick(at(0))
		}
		if got := s.view.Load() != nil; got != want || s.Status().Rebuilds != 0 {
			t.Errorf("%v: got a table %v and %d rebuilds, want %v and none", policy, got, s.Status().Rebuilds, want)
		}
	}
}

// TestChangesOfStateAreLogged, each once: an operator reads from the log when gates changed what they do.
func TestChangesOfStateAreLogged(t *testing.T) {
	var log strings.Builder
	o := exact()
	o.MaxClosed = 2
	o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	s := New(o)
	s.liveness.start = noon
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"another mode", func() { s.SetMode(Shadow) }, `level=INFO msg="gate mode changed" from=enforce to=shadow`},
		{"the same mode", func() { s.SetMode(Shadow) }, ""},
		{"partitions without a heartbeat", func() { s.Partitions(2); s.Tick(at(0)) }, ""},
		{"a heartbeat", func() { beat(s, 1, 0) }, `level=INFO msg="gate decisions are fresh" partition=1`},
		{"another one", func() { beat(s, 1, 1) }, ""},
		{"still fresh", func() { s.Tick(at(3.9)) }, ""},
		{"no heartbeat for three seconds", func() { s.Tick(at(4)) }, `level=WARN msg="gate decisions are stale" partition=1`},
		{"nor later", func() { s.Tick(at(9)) }, ""},
		{"as many callers as there is room for", func() { s.ApplyAt(at(9), many(0, 2, 9, 99)) }, ""},
		{"one caller more", func() { s.ApplyAt(at(9), many(2, 1, 9, 99)) }, `level=WARN msg="gate is full: new closures are dropped" closed=2`},
		{"even more", func() { s.ApplyAt(at(9), many(4, 2, 9, 99)) }, ""},
	} {
		log.Reset()
		step.do()
		if got := strings.TrimSpace(log.String()); got != step.want {
			t.Errorf("%s: got the log %q, want %q", step.name, got, step.want)
		}
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	s := New(exact())
	ips, keys := s.Gate("ip"), s.Gate("key")
	closedAddr, otherAddr := netip.MustParseAddr("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff"), netip.MustParseAddr("192.0.2.1")
	paths := func(t *testing.T) {
		t.Helper()
		for name, f := range map[string]func(){
			"Closed":                func() { keys.Closed("abc"); keys.Closed("other"); ips.Closed("192.0.2.7"); ips.Closed("2001:db8::1") },
			"a caller with a share": func() { keys.Closed("shared"); s.Check(callersOf2(keys, "shared")) },
			"ClosedAddr":            func() { ips.ClosedAddr(closedAddr); ips.ClosedAddr(otherAddr) },
			"Check": func() {
				var c Callers
				c.AddAddr(ips, closedAddr)
				c.AddAddr(ips, otherAddr)
				c.Add(keys, "abc")
				c.Add(ips, "2001:db8::1")
				v := s.Check(&c)
				_ = v.ClosedFor(0)
				_, _, _, _ = c.Key(0)
				c.Reset()
			},
		} {
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%s: got %v allocations, want 0", name, n)
			}
		}
	}
	paths(t)
	now := time.Now().UnixNano()
	for _, c := range []schemas.Caller{{Kind: "ip", ID: "2001:db8:aaaa:bbbb::"}, {Kind: "key", ID: "abc"}} {
		s.Apply([]schemas.Decision{{Rule: "r", Caller: c, Mode: schemas.ModeEnforce, CloseAt: now, Until: now + int64(time.Hour)}})
	}
	d := decision("r", time.Unix(0, now), time.Unix(0, now))
	d.Caller.ID, d.Share = "shared", &schemas.Share{
		From: now, Until: now + int64(time.Hour), Period: int64(time.Hour), Permits: 50, Demand: 1, DemandFrom: now - 1, DemandUntil: now,
	}
	s.Apply([]schemas.Decision{d})
	if !ips.ClosedAddr(closedAddr) || !keys.Closed("abc") || keys.Closed("other") || ips.ClosedAddr(otherAddr) {
		t.Fatal("the closed callers are not closed, or others are")
	}
	paths(t)
}

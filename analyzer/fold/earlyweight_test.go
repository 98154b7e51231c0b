package fold

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// said is an entry of a story about a caller: so many requests at a time, admitted or blocked, and what the fold does then.
type said struct {
	at   time.Duration
	what string // admitted, blocked or early
	n    uint32
	does string // rule, kind of change and until when; empty: nothing
}

func (s said) entry() schemas.Entry {
	return schemas.Entry{
		Time: frameNow + int64(s.at), Kind: "key", ID: "a", Count: s.n,
		Blocked: s.what != "admitted", Early: s.what == "early",
	}
}

const ms = time.Millisecond

// TestClosesByDemand: requests that gates blocked early are requests all the same. Windows of 10 s begin at frameNow, minutes 20 s
// before it.
func TestClosesByDemand(t *testing.T) {
	const (
		fixed   = "{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed}"
		sliding = "{name: r, callers: key, limit: 10, window: 10s, slots: 10}"
		log     = "{name: r, callers: key, limit: 10, window: 10s, algorithm: log}"
		bucket  = "{name: r, callers: key, limit: 10, window: 10s, algorithm: gcra}"
		quick   = "{name: r, callers: key, limit: 10, window: 1s, algorithm: fixed}"
	)
	sec := time.Second
	for name, story := range map[string]struct {
		rules []string
		log   []said
	}{
		"what a synchronous limiter would have closed upon": {[]string{fixed}, []said{
			{sec, "admitted", 8, ""}, {sec + 100*ms, "early", 1, ""}, {sec + 200*ms, "early", 1, "r closed 10s"}, {sec + 300*ms, "early", 5, ""},
		}},
		"an admitted request may be the one": {[]string{fixed}, []said{
			{sec, "admitted", 7, ""}, {sec + 100*ms, "early", 2, ""}, {sec + 200*ms, "admitted", 1, "r closed 10s"},
		}},
		"demand that falls short closes nobody": {[]string{fixed}, []said{{sec, "admitted", 7, ""}, {sec + 100*ms, "early", 2, ""}}},
		"blocked requests that are not early don't count": {[]string{fixed}, []said{
			{sec, "admitted", 8, ""}, {sec + 100*ms, "blocked", 50, ""},
		}},
		"two seconds later they are forgotten": {[]string{fixed}, []said{
			{sec, "admitted", 7, ""}, {sec + 100*ms, "early", 2, ""}, {sec + 2200*ms, "admitted", 1, ""}, {sec + 2300*ms, "admitted", 2, "r closed 10s"},
		}},
		"a window does not begin with what was blocked in the one before": {[]string{fixed}, []said{
			{9 * sec, "admitted", 5, ""}, {9900 * ms, "early", 4, ""}, {10 * sec, "admitted", 9, ""}, {10100 * ms, "early", 1, "r closed 20s"},
		}},
		"nor do short ones": {[]string{quick}, []said{
			{900 * ms, "admitted", 5, ""}, {990 * ms, "early", 4, ""}, {1010 * ms, "admitted", 9, ""}, {1020 * ms, "early", 1, "r closed 2s"},
		}},
		"alone they are nothing: who was never admitted is not known": {[]string{fixed}, []said{{sec, "early", 50, ""}, {sec, "admitted", 1, ""}}},
		"nor when nothing of what was admitted can matter any more":   {[]string{log}, []said{{sec, "admitted", 1, ""}, {11 * sec, "early", 10, ""}}},
		"a sliding window opens when what was admitted leaves": {[]string{sliding}, []said{
			{500 * ms, "admitted", 5, ""}, {1500 * ms, "admitted", 3, ""}, {1600 * ms, "early", 2, "r closed 11s"},
		}},
		"a log likewise": {[]string{log}, []said{
			{500 * ms, "admitted", 5, ""}, {1500 * ms, "admitted", 3, ""}, {1600 * ms, "early", 2, "r closed 10.5s"},
		}},
		"a bucket drains meanwhile": {[]string{bucket}, []said{
			{sec, "admitted", 8, ""}, {sec, "early", 2, ""}, {sec + 100*ms, "early", 1, ""}, {sec + 200*ms, "early", 1, "r closed 2s"},
		}},
		"a penalty counts from the request that reached the limit": {
			[]string{"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 1m, escalate: {factor: 2, max: 10m, forget: 5m}}"}, []said{
				{sec, "admitted", 9, ""}, {2 * sec, "early", 1, "r closed 1m2s"}, {70 * sec, "admitted", 9, ""}, {71 * sec, "early", 1, "r closed 3m11s"},
			}},
		"what is blocked at the end of a closure comes after it": {
			[]string{"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 15s}"}, []said{
				{sec, "admitted", 10, "r closed 16s"}, {12 * sec, "admitted", 8, ""}, {16*sec - 1, "early", 2, ""}, {16 * sec, "early", 2, "r closed 31s"},
			}},
		"late requests of a closed caller prolong nothing": {[]string{fixed}, []said{
			{sec, "admitted", 8, ""}, {sec + 100*ms, "early", 2, "r closed 10s"}, {sec + 50*ms, "early", 8, ""}, {sec + 60*ms, "admitted", 4, ""},
		}},
		"each rule has its own limit": {[]string{fixed, "{name: s, callers: key, limit: 20, window: 10s, algorithm: fixed}"}, []said{
			{sec, "admitted", 9, ""}, {sec + 100*ms, "early", 1, "r closed 10s"}, {sec + 200*ms, "blocked", 30, ""},
		}},
		"the requests of an early close count under the other rules, as if admitted": {
			[]string{fixed, "{name: s, callers: key, limit: 11, window: 1m, algorithm: fixed}"}, []said{
				{sec, "admitted", 8, ""}, {sec + 100*ms, "early", 1, ""}, {sec + 200*ms, "early", 2, "r closed 10s; s closed 40s"},
			}},
		"a rule in shadow mode blocks nobody: what an other rule blocked was a request": {
			[]string{"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, mode: shadow}"}, []said{
				{sec, "admitted", 9, ""}, {sec + 100*ms, "early", 1, "r closed 10s"},
			}},
		"a rule that counts blocked requests does so": {
			[]string{"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, count_blocked: true}"}, []said{
				{sec, "admitted", 9, ""}, {sec + 100*ms, "early", 1, "r closed 10s"},
			}},
		"an unlimited caller": {[]string{"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, overrides: {a: unlimited}}"}, []said{
			{sec, "admitted", 9, ""}, {sec + 100*ms, "early", 5, ""},
		}},
	} {
		t.Run(name, func(t *testing.T) { tellDemand(t, foldtest.Rules(t, story.rules...), story.log) })
	}
}

// tellDemand tells a story to a fold, and to one that is stopped and restored after each entry.
func tellDemand(t *testing.T, set *rules.Set, log []said) {
	t.Helper()
	var kept fakeStore
	whole, restored := New(set, Options{}), New(set, Options{})
	for _, s := range log {
		for name, f := range map[string]*Fold{"whole": whole, "restored": restored} {
			e := s.entry()
			f.Entry(&e)
			var does []string
			for _, c := range f.TakeChanges() {
				if c.Kind != policy.Same {
					does = append(does, fmt.Sprintf("%s %s %v", c.Rule.Name, c.Kind, time.Duration(c.Closure.Until-frameNow)))
				}
			}
			if got := strings.Join(does, "; "); got != s.does {
				t.Errorf("%s, %s of %d at %v: got %q, want %q", name, s.what, s.n, s.at, got, s.does)
			}
		}
		kept.commit(t, restored)
		restored = kept.restore(t, set, Options{})
		if got, want := restored.Digest(restored.LogTime()), whole.Digest(whole.LogTime()); got != want {
			t.Errorf("after %s at %v: got digest %#x restored, want %#x", s.what, s.at, got, want)
		}
	}
}

// TestACloseByDemandCountsWhatWasAdmitted: its peak is the limit, so that it has no overshoot until more is admitted, and the
// evidence says what was admitted.
func TestACloseByDemandCountsWhatWasAdmitted(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed}"), Options{})
	for _, s := range []said{{0, "admitted", 8, ""}, {0, "early", 5, ""}} {
		e := s.entry()
		f.Entry(&e)
	}
	c := f.TakeChanges()
	if len(c) != 1 || c[0].Count.Total != 8 || c[0].Closure.Peak != 10 || f.Stats().Overshoot != 0 {
		t.Fatalf("got %+v and overshoot %v, want one close at 8 admitted with peak 10, and none", c, f.Stats().Overshoot)
	}
	e := said{ms, "admitted", 4, ""}.entry()
	f.Entry(&e)
	if got := f.Stats().Overshoot; got != 0.2 {
		t.Errorf("got overshoot %v after 4 more were admitted, want 0.2", got)
	}
}

// TestReloadsOfClosesByDemand: under the same rule they stay, a limit that would have allowed the demand opens, and a shorter
// penalty shortens.
func TestReloadsOfClosesByDemand(t *testing.T) {
	const before = "{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 1h}"
	for name, test := range map[string]struct {
		after string
		does  []string
	}{
		"the same rule":     {before, []string{}},
		"another is added":  {before + "\n  - {name: s, callers: key, limit: 1, window: 1s}", []string{}},
		"a higher limit":    {"{name: r, callers: key, limit: 11, window: 10s, algorithm: fixed, close_for: 1h}", []string{"r a opened"}},
		"no limit":          {"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 1h, overrides: {a: unlimited}}", []string{"r a opened"}},
		"a shorter penalty": {"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 1s}", []string{"r a moved"}},
		"a longer penalty":  {"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 2h}", []string{"r a moved"}},
		"one warning more":  {"{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 1h, warn: [0.5]}", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, before), Options{})
			for _, s := range []said{{0, "admitted", 8, ""}, {0, "early", 2, ""}} {
				e := s.entry()
				f.Entry(&e)
			}
			f.TakeChanges()
			f.SetRules(foldtest.Rules(t, test.after))
			got := []string{}
			for _, c := range f.TakeChanges() {
				got = append(got, fmt.Sprintf("%s %s %s", c.Rule.Name, c.Caller.ID, c.Kind))
			}
			if !slices.Equal(got, test.does) {
				t.Errorf("got %q, want %q", got, test.does)
			}
		})
	}
}

// TestBlockedEntriesMakeNoRowDirty: neither in a flood of them, nor where they are measured as demand; those that were blocked early
// do, as early weight is stored.
func TestBlockedEntriesMakeNoRowDirty(t *testing.T) {
	set := foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 10s, algorithm: fixed}")
	for name, test := range map[string]struct {
		what  string
		dirty int
	}{"blocked": {"blocked", 0}, "early": {"early", 1}} {
		f := New(set, Options{Predict: rules.PredictEarly})
		f.Measure(frameNow, 100*millisecond)
		e := said{0, "admitted", 9, ""}.entry()
		f.Entry(&e)
		f.TakeDirty()
		for n := range 1000 {
			e := said{time.Duration(n) * time.Microsecond, test.what, 1, ""}.entry()
			f.Entry(&e)
		}
		if got := f.Dirty(); got != test.dirty {
			t.Errorf("%s: got %d dirty rows, want %d", name, got, test.dirty)
		}
		f.TakeDirty()
		for n := range 1000 {
			e := said{time.Second + time.Duration(n)*time.Microsecond, test.what, 1, ""}.entry()
			f.Entry(&e) // the early ones find their caller closed now
		}
		if got := f.Dirty(); got != 0 {
			t.Errorf("%s, once more: got %d dirty rows, want none", name, got)
		}
	}
}

// TestDemandAgainstAListOfEntries: what counts is the weight of the slots that are not too old and lie in the window, whatever the
// order of the entries.
func TestDemandAgainstAListOfEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slot := rapid.SampledFrom([]int64{1, 7, 125, 250}).Draw(t, "slot")
		type added struct{ n, weight int64 }
		var all []added
		d := earlyWeight{newest: math.MinInt64 / 4}
		for range rapid.IntRange(1, 30).Draw(t, "entries") {
			at, weight := rapid.Int64Range(-20*slot, 20*slot).Draw(t, "at"), rapid.Int64Range(1, 9).Draw(t, "weight")
			n := integer.FloorDiv(at, slot)
			young := n > d.newest-earlySlots
			if d.add(n, weight) != young {
				t.Fatalf("slot %d after %d: got added %v, want %v", n, d.newest, !young, young)
			}
			if young {
				all = append(all, added{n, weight})
			}
			now, start := at+rapid.Int64Range(-slot, 10*slot).Draw(t, "asked at"), at-rapid.Int64Range(-slot, 10*slot).Draw(t, "start")
			var want int64
			for _, a := range all {
				if a.n > d.newest-earlySlots && a.n > integer.FloorDiv(now, slot)-earlySlots && a.n*slot >= start {
					want += a.weight
				}
			}
			live := d.as(slot, now, start)
			if got := live.total(); got != want {
				t.Fatalf("got %d as of %d in a window from %d, want %d of %v in slots of %d", got, now, start, want, all, slot)
			}
		}
	})
}

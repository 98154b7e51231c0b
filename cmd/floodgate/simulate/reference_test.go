package simulate

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// setOf returns the rules of a text.
func setOf(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("test", []byte("version: 1\nrules:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// simulated runs one caller at an even rate against rules, and returns what was measured.
func simulated(t *testing.T, set *rules.Set, perSecond int, length time.Duration) *Result {
	t.Helper()
	sim, err := New(Config{Rules: set, Start: start, Servers: 2, Partitions: 1, Lag: exactly(50 * ms), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ask(t, sim, "c", perSecond, 0, length)
	r, err := sim.Finish(start + int64(length))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTheReferenceObeysTheWholeRule: close_for keeps the synchronous limiter closed too, so that ours loses nothing by it; and
// unlimited callers are measured by nobody.
func TestTheReferenceObeysTheWholeRule(t *testing.T) {
	r := simulated(t, setOf(t, "  - {name: r, callers: key, limit: 50, window: 1s, algorithm: fixed, close_for: 3s}\n"), 100, 8*time.Second)
	p := r.Rules[0].Series.Periods
	if p[0].Sync != 50 || p[1].Sync != 0 || p[2].Sync != 0 || p[3].Sync == 0 || p[1].Admitted != 0 || r.Rules[0].Lost > 0.1 {
		t.Errorf("got %+v, and %v lost; want both closed for 3 s", p, r.Rules[0].Lost)
	}
	r = simulated(t, setOf(t, "  - {name: r, callers: key, limit: 50, window: 1s, overrides: {c: unlimited}}\n"), 100, 3*time.Second)
	if got := r.Rules[0]; got.Overshoot.N != 0 || got.Innocents != 1 || r.Admitted != 300 || got.Series.Periods[0].Sync != 100 {
		t.Errorf("got %+v, want an unlimited caller admitted and not measured", got)
	}
	r = simulated(t, setOf(t, "  - {name: r, callers: key, limit: 50, window: 1s, algorithm: fixed, overrides: {c: 80}}\n"), 100, 3*time.Second)
	if got := r.Rules[0]; got.Series.Limit != 80 || got.Series.Periods[1].Sync != 80 || got.SyncShare != 1 {
		t.Errorf("got %+v, want the limit of the override", got)
	}
}

// TestShadowRulesAreNotMeasured: they refuse nobody, here and in the reference.
func TestShadowRulesAreNotMeasured(t *testing.T) {
	r := simulated(t, setOf(t, "  - {name: trial, callers: key, limit: 5, window: 1s, mode: shadow}\n  - {name: r, callers: key, limit: 5000, window: 1s}\n"), 100, 3*time.Second)
	if len(r.Rules) != 1 || r.Rules[0].Rule != "r" || r.Admitted != r.Requests || r.Rules[0].Series.Periods[0].Sync != 100 || r.Decisions == 0 {
		t.Errorf("got %d of %d admitted, %d decisions and %+v; want one rule measured, and decisions that refuse nobody", r.Admitted, r.Requests, r.Decisions, r.Rules)
	}
}

// TestWindowsOfTheCalendarArePeriods, and limits without a log have none beside them.
func TestWindowsOfTheCalendarArePeriods(t *testing.T) {
	r := simulated(t, setOf(t, "  - {name: r, callers: key, limit: 50000, window: hour}\n"), 100, 3*time.Second)
	if got := r.Rules[0]; len(got.Series.Periods) != 1 || got.Series.Periods[0].Demand != 300 || got.Series.Length != 3600 || got.LogShare != 0 {
		t.Errorf("got %+v, want one period of an hour", got)
	}
}

// TestABucketOverflowsByItsFill: what gcra admits beyond the limit is what its bucket holds too much.
func TestABucketOverflowsByItsFill(t *testing.T) {
	r := simulated(t, setOf(t, "  - {name: r, callers: key, limit: 100, window: 1s, algorithm: gcra}\n"), 1000, 4*time.Second)
	got := r.Rules[0]
	if got.Overshoot.N != 4 || got.Overshoot.Max < 0.3 || got.Overshoot.Max > 0.6 || got.LogShare != 0 {
		t.Errorf("got %+v, want some 0.45: 900 a second too many for 50 ms", got.Overshoot)
	}
}

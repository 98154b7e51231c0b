package policy

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

const (
	sec  = time.Second
	minu = time.Minute
	hour = time.Hour
)

// rule returns the rule that fields describe, beside its name and callers.
func rule(t testing.TB, fields string) *rules.Rule {
	t.Helper()
	s, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: r, callers: key, "+fields+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return s.Rules[0]
}

// step is one entry of a story and what it does. Times are since the Unix epoch.
type step struct {
	at     time.Duration
	weight int64
	change Transition
	until  time.Duration // of the closure, looked at unless the change is Same
	nth    int64         // likewise
}

// story folds steps into one window and closure, as a Fold does.
func story(t *testing.T, r *rules.Rule, steps []step) Closure {
	t.Helper()
	var state window.State
	var c Closure
	for i, s := range steps {
		var count window.Count
		state, count = r.Window.Add(state, r.Limit, int64(s.at), s.weight)
		var change Transition
		c, change = Step(r, c, nil, int64(s.at), count)
		if change != s.change {
			t.Fatalf("step %d at %v: got %v, want %v: %+v", i, s.at, change, s.change, c)
		}
		if change != Same && (c.Until != int64(s.until) || c.Nth != s.nth) {
			t.Fatalf("step %d at %v: got until %v, the %d. time, want %v, the %d.", i, s.at,
				time.Duration(c.Until), c.Nth, s.until, s.nth)
		}
	}
	return c
}

func TestStories(t *testing.T) {
	tests := map[string]struct {
		rule  string
		steps []step
	}{
		"the limit-th request is the last admitted": {"limit: 10, window: 1m, algorithm: fixed", []step{
			{at: 0, weight: 9, change: Same},
			{at: 30 * sec, weight: 1, change: Closed, until: minu, nth: 1},
			{at: 31 * sec, weight: 1, change: Same},
			{at: minu, weight: 1, change: Same}, // a new window
			{at: 70 * sec, weight: 9, change: Closed, until: 2 * minu, nth: 1},
		}},
		"late traffic moves a sliding window's end, and that is no new close": {"limit: 10, window: 1m, slots: 6", []step{
			{at: 0, weight: 10, change: Closed, until: 70 * sec, nth: 1},
			{at: 5 * sec, weight: 5, change: Same}, // the same slot
			{at: 20 * sec, weight: 9, change: Same},
			{at: 20 * sec, weight: 1, change: Moved, until: 90 * sec, nth: 1},
			{at: 69 * sec, weight: 10, change: Moved, until: 130 * sec, nth: 1},
			{at: 131 * sec, weight: 1, change: Same},
		}},
		"a straggler from before the close adds to it": {"limit: 10, window: 1m, slots: 6", []step{
			{at: 50 * sec, weight: 10, change: Closed, until: 120 * sec, nth: 1},
			{at: 20 * sec, weight: 5, change: Same},
		}},
		"a straggler from a closure that is over makes it go on, if it fills the window": {"limit: 10, window: 1m, slots: 6", []step{
			{at: 0, weight: 10, change: Closed, until: 70 * sec, nth: 1},
			{at: 75 * sec, weight: 9, change: Same},
			{at: 65 * sec, weight: 1, change: Moved, until: 130 * sec, nth: 1},
		}},
		"what another server reports of the window before moves nothing of the newest one": {"limit: 10, window: 1m, algorithm: fixed", []step{
			{at: 50 * sec, weight: 9, change: Same},
			{at: 60 * sec, weight: 10, change: Closed, until: 2 * minu, nth: 1},
			{at: 59 * sec, weight: 30, change: Same}, // full too, but the closure of the newest window stands
			{at: 61 * sec, weight: 1, change: Same},
			{at: 2 * minu, weight: 10, change: Closed, until: 3 * minu, nth: 1},
		}},
		"the window before closes if the newest one has not": {"limit: 10, window: 1m, algorithm: fixed, close_for: 30s", []step{
			{at: 50 * sec, weight: 9, change: Same},
			{at: 60 * sec, weight: 1, change: Same}, // the server whose clock is ahead
			{at: 59 * sec, weight: 1, change: Closed, until: 89 * sec, nth: 1},
		}},
		"too late to count": {"limit: 10, window: 1m, slots: 6", []step{
			{at: 10 * minu, weight: 9, change: Same},
			{at: 8 * minu, weight: 50, change: Same},
			{at: 10 * minu, weight: 1, change: Closed, until: 11*minu + 10*sec, nth: 1},
		}},
		"close_for outlasts the window": {"limit: 10, window: 10s, algorithm: fixed, close_for: 1m", []step{
			{at: 5 * sec, weight: 10, change: Closed, until: 65 * sec, nth: 1},
			{at: 12 * sec, weight: 10, change: Same}, // full until 20 s, which is sooner
			{at: 65 * sec, weight: 1, change: Same},
		}},
		"a window outlasts close_for": {"limit: 10, window: 1h, algorithm: fixed, close_for: 1m", []step{
			{at: minu, weight: 10, change: Closed, until: hour, nth: 1},
		}},
		"each close in a row is longer, up to the longest": {
			"limit: 1, window: 1s, algorithm: fixed, close_for: 10s, escalate: {factor: 3, max: 1m, forget: 5m}", []step{
				{at: 0, weight: 1, change: Closed, until: 10 * sec, nth: 1},
				{at: 10 * sec, weight: 1, change: Closed, until: 40 * sec, nth: 2},
				{at: 40 * sec, weight: 1, change: Closed, until: 100 * sec, nth: 3}, // 90 s, but at most a minute
				{at: 100 * sec, weight: 1, change: Closed, until: 160 * sec, nth: 4},
				{at: 160*sec + 5*minu - 1, weight: 1, change: Closed, until: 220*sec + 5*minu - 1, nth: 5},
			},
		},
		"who behaves for long enough is forgiven": {
			"limit: 1, window: 1s, algorithm: fixed, close_for: 10s, escalate: {factor: 3, max: 1m, forget: 5m}", []step{
				{at: 0, weight: 1, change: Closed, until: 10 * sec, nth: 1},
				{at: 10 * sec, weight: 1, change: Closed, until: 40 * sec, nth: 2},
				{at: 40*sec + 5*minu, weight: 1, change: Closed, until: 50*sec + 5*minu, nth: 1},
			},
		},
		"behaving is counted from when the gate opened, and small requests don't end it": {
			"limit: 2, window: 1s, algorithm: fixed, close_for: 10s, escalate: {factor: 2, max: 1m, forget: 1m}", []step{
				{at: 0, weight: 2, change: Closed, until: 10 * sec, nth: 1},
				{at: 30 * sec, weight: 1, change: Same},
				{at: 69 * sec, weight: 2, change: Closed, until: 89 * sec, nth: 2},
				{at: 149 * sec, weight: 1, change: Same},
				{at: 149 * sec, weight: 1, change: Closed, until: 159 * sec, nth: 1},
			},
		},
		"a factor of one never grows": {
			"limit: 1, window: 1s, algorithm: fixed, close_for: 10s, escalate: {factor: 1, max: 1m}", []step{
				{at: 0, weight: 1, change: Closed, until: 10 * sec, nth: 1},
				{at: 10 * sec, weight: 1, change: Closed, until: 20 * sec, nth: 2},
				{at: 20 * sec, weight: 1, change: Closed, until: 30 * sec, nth: 3},
			},
		},
		"a bucket closes at its brim": {"limit: 60, window: 1m, algorithm: gcra, burst: 3", []step{
			{at: 0, weight: 2, change: Same},
			{at: 0, weight: 1, change: Closed, until: sec, nth: 1},
			{at: sec, weight: 1, change: Closed, until: 2 * sec, nth: 1},
			{at: 1500 * time.Millisecond, weight: 2, change: Moved, until: 4 * sec, nth: 1},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { story(t, rule(t, test.rule), test.steps) })
	}
}

// TestAMillionClosesInARow: the n-th close neither overflows nor takes time in n.
func TestAMillionClosesInARow(t *testing.T) {
	r := rule(t, "limit: 1, window: 1s, close_for: 1s, escalate: {factor: 1000, max: 8784h}")
	c := Closure{CloseAt: 0, Until: int64(sec), Nth: math.MaxInt64, Peak: 1}
	count := window.Count{Total: 1, Until: int64(3 * sec)}
	c, change := Step(r, c, nil, int64(2*sec), count)
	want := Closure{CloseAt: int64(2 * sec), Until: int64(2*sec + 366*24*hour), Nth: math.MaxInt64, Peak: 1}
	if c != want || change != Closed {
		t.Errorf("got %+v, %v, want %+v", c, change, want)
	}
}

func TestTheEndOfTime(t *testing.T) {
	r := rule(t, "limit: 1, window: 1s, close_for: 1h, escalate: {factor: 2, max: 2h}")
	for _, at := range []int64{math.MinInt64, -1, 0, math.MaxInt64 - 1, math.MaxInt64} {
		_, count := r.Window.Add(nil, 1, at, math.MaxInt64)
		c, _ := Step(r, Closure{}, nil, at, count)
		if closed := c.Nth == 1; closed != (at < math.MaxInt64) {
			t.Errorf("at %d: got %+v, want closed unless time is over", at, c)
		}
		if c.Until < c.CloseAt || c.Peak < 0 {
			t.Errorf("at %d: got %+v", at, c)
		}
		if e := c.Expiry(r); c.Nth > 0 && e < c.Until {
			t.Errorf("at %d: got expiry %d before the end of %+v", at, e, c)
		}
		if got := c.Overshoot(r, 1); got < 0 || math.IsNaN(got) || math.IsInf(got, 0) {
			t.Errorf("at %d: got overshoot %v", at, got)
		}
	}
}

func TestClosedAt(t *testing.T) {
	c := Closure{CloseAt: 10, Until: 20, Nth: 1}
	for at, want := range map[int64]bool{9: false, 10: true, 19: true, 20: false} {
		if got := c.ClosedAt(at); got != want {
			t.Errorf("at %d: got %v, want %v", at, got, want)
		}
	}
	if (Closure{}).ClosedAt(0) {
		t.Error("the zero closure is closed, want it never closed")
	}
}

func TestOvershoot(t *testing.T) {
	tests := []struct {
		name  string
		rule  string
		limit int64
		peak  int64
		want  float64
	}{
		{"to the unit", "limit: 10, window: 1m", 10, 10, 0},
		{"below, after the limit was raised", "limit: 10, window: 1m", 10, 7, 0},
		{"half as much again", "limit: 10, window: 1m", 10, 15, 0.5},
		{"of an override", "limit: 10, window: 1m", 100, 150, 0.5},
		{"of a bucket: what it holds", "limit: 100, window: 1m, algorithm: gcra, burst: 20", 100, 30, 0.5},
		{"of a bucket that holds the limit", "limit: 100, window: 1m, algorithm: gcra", 100, 150, 0.5},
		{"the most there is", "limit: 1, window: 1m", 1, math.MaxInt64, float64(math.MaxInt64)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := Closure{CloseAt: 1, Until: 2, Nth: 1, Peak: test.peak}
			if got := c.Overshoot(rule(t, test.rule), test.limit); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestPeakIsTheMaximumUntilItOpens(t *testing.T) {
	r := rule(t, "limit: 10, window: 1m, algorithm: fixed")
	c := story(t, r, []step{
		{at: 0, weight: 12, change: Closed, until: minu, nth: 1},
		{at: sec, weight: 3, change: Same},
		{at: 2 * sec, weight: 5, change: Same},
	})
	if c.Peak != 20 || c.Overshoot(r, 10) != 1 {
		t.Errorf("got %+v, want a peak of 20", c)
	}
	c = story(t, r, []step{
		{at: 0, weight: 50, change: Closed, until: minu, nth: 1},
		{at: minu, weight: 10, change: Closed, until: 2 * minu, nth: 1},
	})
	if c.Peak != 10 {
		t.Errorf("got a peak of %d, want 10: the close before is another", c.Peak)
	}
	c = story(t, rule(t, "limit: 1, window: 1m, algorithm: fixed"), []step{
		{at: 0, weight: 1, change: Closed, until: minu, nth: 1},
		{at: sec, weight: 2, change: Same},
	})
	if c.Peak != 3 {
		t.Errorf("got a peak of %d of a limit of 1, want 3", c.Peak)
	}
}

func TestWarning(t *testing.T) {
	r := rule(t, "limit: 100, window: 1m, warn: [0.5, 0.8, 1.0, 2.0]")
	tests := []struct {
		name          string
		before, after int64
		want          float64
	}{
		{"below all", 0, 49, 0},
		{"at the first", 49, 50, 0.5},
		{"past the first already", 50, 79, 0},
		{"two at once: the higher", 40, 85, 0.8},
		{"the limit", 99, 100, 1},
		{"far over", 0, 1000, 2},
		{"nothing new", 1000, 1001, 0},
		{"the most there is", math.MaxInt64 - 1, math.MaxInt64, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Warning(r, 100, window.Count{Total: test.after}, test.after-test.before); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	bucket := rule(t, "limit: 100, window: 1m, algorithm: gcra, burst: 10, warn: [0.5]")
	if got := Warning(bucket, 100, window.Count{Total: 5}, 1); got != 0.5 {
		t.Errorf("got %v, want 0.5: half of the bucket", got)
	}
	far := rule(t, "limit: 100000000000000000, window: 1m, warn: [100]")
	if got := Warning(far, far.Limit, window.Count{Total: math.MaxInt64}, math.MaxInt64); got != 0 {
		t.Errorf("got %v, want none: a hundred times the limit is more than can be counted", got)
	}
}

// TestHowLongAClosureMatters: until it ends; where closes are numbered, also until the rule forgets it, even if closes do not grow.
func TestHowLongAClosureMatters(t *testing.T) {
	for fields, want := range map[string]struct{ expiry, reach time.Duration }{
		"":                 {10 * minu, 0},
		", close_for: 30s": {10 * minu, 30 * sec},
		", close_for: 30s, escalate: {factor: 1, max: 30s, forget: 5m}": {15 * minu, 30*sec + 5*minu},
		", close_for: 30s, escalate: {factor: 2, max: 20m, forget: 5m}": {15 * minu, 25 * minu},
	} {
		r := rule(t, "limit: 10, window: 1m"+fields)
		c := Closure{CloseAt: int64(9 * minu), Until: int64(10 * minu), Nth: 1, Peak: 10}
		if got := c.Expiry(r); got != int64(want.expiry) || (Closure{}).Expiry(r) != math.MinInt64 {
			t.Errorf("%q: got %v, want %v", fields, time.Duration(got), want.expiry)
		}
		if got := Reach(r); got != int64(want.reach) {
			t.Errorf("%q: got a reach of %v, want %v", fields, time.Duration(got), want.reach)
		}
	}
}

// TestALateReportOfTheMomentOfAClose: an entry of the very time at which a caller closed counts in the peak of that close, also when the next
// window has begun. An earlier one does not.
func TestALateReportOfTheMomentOfAClose(t *testing.T) {
	for late, want := range map[time.Duration]int64{500 * time.Millisecond: 3, 500*time.Millisecond - 1: 2} {
		r := rule(t, "limit: 2, window: 1s, algorithm: fixed")
		c := story(t, r, []step{
			{500 * time.Millisecond, 2, Closed, sec, 1}, {1200 * time.Millisecond, 1, Same, 0, 0}, {late, 1, Same, 0, 0},
		})
		if c.Peak != want {
			t.Errorf("at %v: got a peak of %d, want %d", late, c.Peak, want)
		}
	}
}

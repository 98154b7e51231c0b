package policy

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// TestHeldStories: a caller is held while nothing is left, for at least 6 s and at most a minute, and is decided on again at half of that. It
// opens when one more request fits, or a hundredth of the limit.
func TestHeldStories(t *testing.T) {
	const start = 1_790_000_040 * int64(time.Second)
	fixed := &rules.Rule{Window: window.NewFixed(time.Minute)}
	sliding := &rules.Rule{Window: window.NewSliding(time.Minute, 20)}
	type step struct {
		at      time.Duration // since the window began
		left    int64
		demand  int64
		until   time.Duration // of the closure; 0 is none
		publish bool
	}
	const second = time.Second
	for name, test := range map[string]struct {
		rule     *rules.Rule
		duration time.Duration
		mean     int64
		steps    []step
	}{
		"short requests": {fixed, second, 10, []step{
			{1 * second, 1, 0, 0, false}, {2 * second, 0, 0, 8 * second, true}, {3 * second, 99, 0, 8 * second, false}, {4 * second, 100, 0, 0, true},
			{5 * second, 99, 0, 0, false},
		}},
		"one request is more than a hundredth": {fixed, second, 300, []step{{0, -1, 0, 6 * second, true}, {second, 299, 0, 6 * second, false}, {second, 300, 0, 0, true}}},
		"renewed at half": {fixed, second, 10, []step{
			{0, -5, 0, 6 * second, true}, {2999 * time.Millisecond, -5, 0, 6 * second, false}, {3 * second, 50, 0, 9 * second, true},
			{5 * second, -5, 0, 9 * second, false}, {6 * second, -5, 0, 12 * second, true},
		}},
		"not renewed":    {fixed, second, 10, []step{{0, -5, 0, 6 * second, true}, {6 * second, 1, 0, 0, false}, {7 * second, 0, 0, 13 * second, true}}},
		"long requests":  {fixed, 14 * second, 10, []step{{0, 0, 0, 28 * second, true}}},
		"very long ones": {sliding, time.Hour, 10, []step{{0, 0, 0, time.Minute, true}}},
		"the next window is open": {fixed, 14 * second, 10, []step{
			{50 * second, 0, 0, time.Minute, true}, {55 * second, 0, 0, time.Minute, false}, {59 * second, 0, 0, time.Minute, false},
		}},
		"a sliding window of one slot": {&rules.Rule{Window: window.NewSliding(time.Minute, 1)}, 14 * second, 10, []step{{50 * second, 0, 0, 78 * second, true}}},
		"a sliding window has no end":  {sliding, 14 * second, 10, []step{{50 * second, 0, 0, 78 * second, true}}},
		"what comes within a lag": {fixed, second, 10, []step{
			{0, 500, 499, 0, false}, {second, 500, 500, 7 * second, true}, {2 * second, 590, 500, 7 * second, false}, {2 * second, 600, 500, 0, true},
		}},
	} {
		var last Held
		for i, s := range test.steps {
			o := HeldOutlook{
				Rule: test.rule, Limit: 10_000, Duration: int64(test.duration), Demand: s.demand, Now: start + int64(s.at),
				Room: hold.Room{Left: s.left, Mean: test.mean, InFlight: 3}, Count: window.Count{Total: 10, Start: start},
			}
			next, publish := o.Step(last)
			var until time.Duration
			if next.Covers(o.Now) {
				until = time.Duration(next.Until - start)
			}
			if until != s.until || publish != s.publish {
				t.Errorf("%s, step %d: got until %v, publish %v, want %v, %v", name, i, until, publish, s.until, s.publish)
			}
			if last.Covers(o.Now) && next.Covers(o.Now) && next.CloseAt != last.CloseAt {
				t.Errorf("%s, step %d: a renewal moved the begin from %d to %d", name, i, last.CloseAt, next.CloseAt)
			}
			last = next
		}
	}
}

// TestACallerWithNothingIsOpen: whatever the estimate and the margin say, the first request of a caller passes.
func TestACallerWithNothingIsOpen(t *testing.T) {
	r := &rules.Rule{Window: window.NewFixed(time.Minute)}
	o := HeldOutlook{Rule: r, Limit: 10, Now: 1000, Room: hold.Room{Left: -500, Mean: 1000}}
	if next, publish := o.Step(Held{}); publish || next.Covers(1000) {
		t.Errorf("got %+v, %v, want an open caller", next, publish)
	}
	if next, publish := o.Step(Held{CloseAt: 1, Until: 5000}); !publish || next.Covers(1000) {
		t.Errorf("held before: got %+v, %v, want it to open", next, publish)
	}
	o.Room.InFlight = 3
	if next, publish := o.Step(Held{}); !publish || !next.Covers(1000) {
		t.Errorf("with requests in flight: got %+v, %v, want a closed caller", next, publish)
	}
	o.Room.InFlight, o.Count.Total = 0, 10
	if next, publish := o.Step(Held{}); !publish || !next.Covers(1000) {
		t.Errorf("with a count: got %+v, %v, want a closed caller", next, publish)
	}
}

// TestRequestsInFlight: a caller closes at the limit, and opens below it. All is one close until fewer than half of the limit are in flight.
func TestRequestsInFlight(t *testing.T) {
	const limit = 10
	var c Closure
	goesOn, before := false, int64(0)
	for i, s := range []struct {
		at, total, until int64 // until is when the window would open by itself
		change           Transition
		nth, closed      int64 // closed until; 0 is open
		peak             int64
	}{
		{1, 9, 0, Same, 0, 0, 0},
		{2, 10, 900, Closed, 1, 900, 10},
		{3, 12, 900, Same, 1, 900, 12},
		{4, 13, 950, Moved, 1, 950, 13},
		{5, 9, 0, Opened, 1, 0, 13},
		{6, 10, 900, Moved, 1, 900, 13},
		{7, 14, 900, Same, 1, 900, 14},
		{8, 5, 0, Opened, 1, 0, 14},
		{9, 10, 900, Moved, 1, 900, 14}, // half is not less than half
		{10, 9, 0, Opened, 1, 0, 14},
		{11, 4, 0, Same, 1, 0, 14},
		{12, 9, 0, Same, 1, 0, 14},
		{13, 11, 990, Closed, 1, 990, 11},
		{991, 11, 1990, Closed, 1, 1990, 11}, // its requests were forgotten meanwhile
		{992, 4, 0, Opened, 1, 0, 11},
		{993, 10, 1990, Closed, 1, 1990, 10}, // it was below half at once
	} {
		count := window.Count{Total: s.total, Until: max(s.until, s.at)}
		var change Transition
		c, change, goesOn = StepInFlight(c, goesOn, s.at, limit, before, count)
		if until := c.Until; change != s.change || c.Nth != s.nth || c.ClosedAt(s.at) != (s.closed > 0) || s.closed > 0 && until != s.closed || c.Peak != s.peak {
			t.Errorf("step %d: got %v and %+v, want %v until %d with a peak of %d", i, change, c, s.change, s.closed, s.peak)
		}
		before = s.total
	}
	// Requests are forgotten between two entries, so that what was in flight before an entry says it, too.
	c = Closure{CloseAt: 1, Until: 5, Nth: 1, Peak: 10}
	for before, want := range map[int64]Transition{4: Closed, 5: Moved} {
		if _, change, _ := StepInFlight(c, true, 9, limit, before, window.Count{Total: 10, Until: 900}); change != want {
			t.Errorf("%d were in flight before: got %v, want %v", before, change, want)
		}
	}
	for total, want := range map[int64]bool{4: false, 5: true} {
		if _, _, goesOn := StepInFlight(c, true, 9, limit, 9, window.Count{Total: total, Until: 9}); goesOn != want {
			t.Errorf("%d are in flight: got that the close goes on %v, want %v", total, goesOn, want)
		}
	}
}

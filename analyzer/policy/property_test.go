package policy

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// variety returns rules of all algorithms, with limits of ten.
func variety(t *testing.T) []*rules.Rule {
	t.Helper()
	return []*rules.Rule{
		rule(t, "limit: 10, window: 1m, algorithm: fixed"),
		rule(t, "limit: 10, window: 1m, slots: 7, close_for: 90s"),
		rule(t, "limit: 10, window: 1m, algorithm: log, close_for: 5s, escalate: {factor: 2.5, max: 3m}"),
		rule(t, "limit: 10, window: 1m, algorithm: gcra, close_for: 3s"),
		rule(t, "limit: 10, window: 1m, algorithm: gcra, burst: 10"),
		rule(t, "limit: 10, window: day, timezone: Europe/Berlin, close_for: 1s, escalate: {factor: 2, max: 1h, forget: 10s}"),
	}
}

// TestStepsAreInOrder draws entries in any order of time: closures don't end before they begin, a Closed is the step
// from open to closed, and whoever stays below the limit is never closed.
func TestStepsAreInOrder(t *testing.T) {
	all := variety(t)
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(all).Draw(t, "rule")
		var state window.State
		var c Closure
		var sum int64
		for range rapid.IntRange(1, 40).Draw(t, "entries") {
			at := rapid.Int64Range(0, int64(5*minu)).Draw(t, "at")
			weight := rapid.Int64Range(1, 4).Draw(t, "weight")
			sum += weight
			var count window.Count
			state, count = r.Window.Add(state, r.Limit, at, weight)
			next, change := Step(r, c, nil, at, count)
			switch {
			case next.Nth > 0 && next.Until <= next.CloseAt:
				t.Fatalf("got %+v, which ends before it begins", next)
			case change == Closed && at < c.Until:
				t.Fatalf("got closed at %d although closed until %d", at, c.Until)
			case change == Moved && next.Until <= c.Until:
				t.Fatalf("got moved from %+v to %+v, want later", c, next)
			case change != Same && sum < r.Limit:
				t.Fatalf("got %v with %d of %d", change, sum, r.Limit)
			case next.Peak < c.Peak && change != Closed && next.Nth != 0:
				t.Fatalf("got peak %d after %d", next.Peak, c.Peak)
			}
			c = next
		}
	})
}

// TestDeriveUnderTheSameRuleChangesNothing: whatever has happened, rules that say what they said before move no closure.
// This is what a restart under unchanged rules relies on, and a reload that changes other rules.
func TestDeriveUnderTheSameRuleChangesNothing(t *testing.T) {
	all := variety(t)
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(all).Draw(t, "rule")
		var state window.State
		var c Closure
		var now int64
		for range rapid.IntRange(1, 30).Draw(t, "entries") {
			now += rapid.Int64Range(0, int64(20*sec)).Draw(t, "pause")
			at := now - rapid.Int64Range(0, int64(10*sec)).Draw(t, "late by")
			var count window.Count
			state, count = r.Window.Add(state, r.Limit, at, rapid.Int64Range(1, 4).Draw(t, "weight"))
			c, _ = Step(r, c, nil, at, count)
		}
		now += rapid.Int64Range(0, int64(3*minu)).Draw(t, "pause before the reload")
		got, change := Derive(r, r.Limit, false, false, c, nil, now, r.Window.View(state, r.Limit, now))
		if change != Same || got != c {
			t.Fatalf("got %v, %+v at %d, want %+v as it was; state %v", change, got, now, c, state)
		}
	})
}

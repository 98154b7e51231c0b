package predict

import (
	"fmt"
	"math"
	"testing"

	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/policy"
)

// TestOvershootsCountByMechanism: each close counts once, for what held its caller to its limit, with its largest overshoot. What is
// marked after it has ended, or of a caller who is not closed, changes nothing.
func TestOvershootsCountByMechanism(t *testing.T) {
	o := newOvershoots()
	a, b, c := overshootKey{0, "a"}, overshootKey{0, "b"}, overshootKey{1, "a"}
	closed := func(from, until int64) policy.Closure { return policy.Closure{CloseAt: from, Until: until, Nth: 1} }
	o.note(a, closed(10, 20), true, 8, 0.125, 10)
	o.mark(a, policy.Shared)
	o.note(a, closed(10, 20), false, 8, 0.375, 12)
	o.note(a, closed(10, 22), false, 8, 0.2, 13) // its end moves
	o.note(b, closed(14, 30), true, 8, 0.5, 14)
	o.mark(c, policy.Predicted)
	o.note(c, closed(15, 25), true, 8, 0.25, 15)
	o.note(c, closed(16, 25), true, 8, 0.75, 16) // another close: the one before ended early
	o.mark(c, policy.Predicted)
	o.settle(21)
	o.settle(22)
	o.mark(a, policy.Predicted)
	if want := [policy.Mechanisms]Sum{policy.Reactive: {1, 0.25}, policy.Shared: {1, 0.375}}; o.by != want {
		t.Errorf("got %+v so far, want %+v", o.by, want)
	}
	o.settle(math.MaxInt64)
	if want := [policy.Mechanisms]Sum{{2, 0.75}, {1, 0.75}, {1, 0.375}}; o.by != want {
		t.Errorf("got %+v, want %+v", o.by, want)
	}
	if s := o.seen.Snapshot(); s.Count != 4 || s.Sum != 1.875 {
		t.Errorf("got %+v, want all four together", s)
	}
}

// TestOvershootsHaveABound: any number of callers may be closed at once, and each is seen once.
func TestOvershootsHaveABound(t *testing.T) {
	o := newOvershoots()
	const callers = maxOvershoots + 100
	for i := range callers {
		o.note(overshootKey{0, fmt.Sprint(i)}, policy.Closure{CloseAt: int64(i), Until: 1 << 40}, true, 10, 0.1, int64(i))
		for range 3 {
			o.note(overshootKey{0, fmt.Sprint(i)}, policy.Closure{CloseAt: int64(i), Until: 1 << 40}, false, 10, 0.3, int64(i)+1)
		}
		if len(o.open) > maxOvershoots {
			t.Fatalf("got %d in memory, want %d at most", len(o.open), maxOvershoots)
		}
	}
	o.settle(math.MaxInt64)
	if s := o.seen.Snapshot(); s.Count != callers || len(o.open) != 0 || s.Within[histogram.Ratios()[6]] != s.Count {
		t.Errorf("got %+v and %d left, want %d", s, len(o.open), callers)
	}
}

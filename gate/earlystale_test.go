package gate

import (
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// TestStaleGatesAndEarlyCloses: an analyzer dies that has predicted a closure, alone or behind one that was counted. Nobody takes it
// back, and it ends by itself; a gate that opens when its decisions are stale passes over it at once.
func TestStaleGatesAndEarlyCloses(t *testing.T) {
	span := func(from, to float64, early bool) schemas.Span {
		return schemas.Span{CloseAt: at(from).UnixNano(), Until: at(to).UnixNano(), Early: early}
	}
	alone := closing("r", "key:a", 4, 5)
	alone.Early = true
	behind := closing("r", "key:a", 0, 4)
	behind.Next = span(4, 5, true)
	for name, test := range map[string]struct {
		policy   Policy
		decision schemas.Decision
		closed   []float64 // of the times 1, 3.5, 4.5, 4.99, 5 and 9 s
	}{
		"hold: alone":           {Hold, alone, []float64{4.5, 4.99}},
		"hold: behind another":  {Hold, behind, []float64{1, 3.5, 4.5, 4.99}},
		"open: alone":           {Open, alone, nil},
		"open: behind another":  {Open, behind, []float64{1}},
		"closed: alone":         {Closed, alone, []float64{3.5, 4.5, 4.99, 5, 9}},
		"closed: behind a last": {Closed, behind, []float64{1, 3.5, 4.5, 4.99, 5, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			o := exact()
			o.Stale = test.policy
			s := New(o)
			s.liveness.start = noon
			s.Partitions(1)
			beat(s, 0, 0) // and no more: stale from 3 s on
			s.ApplyAt(at(0), []schemas.Decision{decided(0, test.decision)})
			for _, now := range []float64{1, 3.5, 4.5, 4.99, 5, 9} {
				s.Tick(at(now))
				want := false
				for _, c := range test.closed {
					want = want || c == now
				}
				v := check(t, s, now, "key:a")
				if v.Closed != want {
					t.Errorf("at %v s: got closed %v, want %v", now, v.Closed, want)
				}
				if early := now >= 4 && now < 5 && test.policy != Open; v.EarlyFor(0) != early {
					t.Errorf("at %v s: got early %v, want %v", now, v.EarlyFor(0), early)
				}
			}
		})
	}
}

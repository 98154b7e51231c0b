package gate

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

func TestASetSaysWhatItHoldsAboutACaller(t *testing.T) {
	s := New(Options{MaxJitter: -1, Stale: Open, Mode: Enforce})
	s.liveness.start = at(0)
	s.Partitions(2)
	key, other := schemas.Caller{Kind: "key", ID: "a"}, schemas.Caller{Kind: "ip", ID: "203.0.113.9"}
	if got := s.Holds(key, at(0)); len(got) != 0 {
		t.Errorf("nothing was decided: got %+v", got)
	}
	nano := func(seconds float64) int64 { return at(seconds).UnixNano() }
	s.ApplyAt(at(0), []schemas.Decision{
		{
			Rule: "r", Caller: key, Mode: schemas.ModeEnforce, CloseAt: nano(0), Until: nano(10), Partition: 1,
			Next:     schemas.Span{CloseAt: nano(20), Until: nano(21), Early: true},
			Evidence: schemas.Evidence{Limit: 7, Window: int64(time.Minute)},
		},
		{Rule: "s", Caller: key, Mode: schemas.ModeShadow, CloseAt: nano(0), Until: nano(30), Partition: 0},
		{Rule: "r", Caller: other, Mode: schemas.ModeEnforce, CloseAt: nano(0), Until: nano(10), Early: true, Held: true},
	})
	s.Heartbeat(schemas.Heartbeat{Partition: 1, Epoch: 4, Watermark: 99, Lag: 5_000_000}, at(0))
	byRule := make(map[string][]Held)
	for _, h := range s.Holds(key, at(1)) {
		byRule[h.Rule] = append(byRule[h.Rule], h)
	}
	if len(byRule["r"]) != 2 || len(byRule["s"]) != 1 || len(byRule) != 2 {
		t.Fatalf("got %+v, want two spans of r and one of s", byRule)
	}
	for _, h := range byRule["r"] {
		p := h.Partition
		if h.Limit != 7 || h.Window != time.Minute || h.Mode != schemas.ModeEnforce || p.Partition != 1 || p.Epoch != 4 || p.Watermark != 99 ||
			p.Lag != 5*time.Millisecond || p.Freshness != Fresh || h.InForce(at(1)) == h.Early || h.Held {
			t.Errorf("got %+v, want a closure in force and a predicted one", h)
		}
	}
	for i, want := range [][2]float64{{0, 10}, {20, 21}} {
		if h := byRule["r"][i]; !h.CloseAt.Equal(at(want[0])) || !h.Until.Equal(at(want[1])) {
			t.Errorf("got %+v, want it from %v to %v s", h, want[0], want[1])
		}
	}
	if h := byRule["s"][0]; h.Mode != schemas.ModeShadow || !h.InForce(at(1)) || h.Partition.Freshness != Cold || !h.Until.Equal(at(30)) {
		t.Errorf("got %+v, want a shadow closure of a cold partition", h)
	}
	for _, h := range s.Holds(key, at(9)) { // partition 1 is stale by now
		if h.Rule == "r" && (!h.Ignored || h.InForce(at(9))) {
			t.Errorf("under the policy open a stale closure is ignored: got %+v", h)
		}
	}
	for _, now := range []float64{21, 25} {
		if got := s.Holds(key, at(now)); len(got) != 1 || got[0].Rule != "s" {
			t.Errorf("at %v s: what is over is not held: got %+v", now, got)
		}
	}
	if got := s.Holds(other, at(1)); len(got) != 1 || got[0].Rule != "r" || !got[0].Early || !got[0].Held {
		t.Errorf("an address: got %+v, want a held closure", got)
	}
	for _, c := range []schemas.Caller{{Kind: "key", ID: "b"}, {Kind: "nobody", ID: "a"}, {}} {
		if got := s.Holds(c, at(1)); len(got) != 0 {
			t.Errorf("%s: got %+v, want none", c, got)
		}
	}
	if st := s.StatusAt(at(1)); len(st.Kinds) != 2 {
		t.Errorf("to ask makes no gates: got %+v", st.Kinds)
	}
}

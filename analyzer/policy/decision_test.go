package policy

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// TestADecisionAgreesWithItsClosure: a gate closes exactly for as long as the closure, and finds the count, the limit and
// the window of this caller in the evidence. What only a publisher knows is left to it.
func TestADecisionAgreesWithItsClosure(t *testing.T) {
	r := rule(t, "limit: 3, window: 1m, algorithm: fixed, close_for: 30s")
	caller := schemas.Caller{Kind: "key", ID: "a"}
	at := int64(20 * time.Second)
	count := window.Count{Total: 4, Start: 0}
	for name, c := range map[string]Closure{
		"closed":          {CloseAt: at, Until: int64(time.Minute), Nth: 1, Peak: 4},
		"never closed":    {},
		"opened too soon": {CloseAt: at, Until: at, Nth: 1},
	} {
		d := Decision(r, caller, c, at, 5, count)
		if d.Rule != r.Name || d.RuleVersion != r.Fingerprint() || d.Caller != caller || d.Mode != r.Mode {
			t.Errorf("%s: got %+v, want rule %q, version %016x, caller %v, mode %v", name, d, r.Name, r.Fingerprint(), caller, r.Mode)
		}
		for _, now := range []int64{at - 1, at, at + 1, int64(time.Minute) - 1, int64(time.Minute)} {
			if got, want := d.ClosedAt(now), c.ClosedAt(now); got != want {
				t.Errorf("%s, at %v: got closed %v, want %v", name, time.Duration(now), got, want)
			}
		}
		want := schemas.Evidence{Count: 4, Limit: 5, Window: int64(time.Minute), WindowStart: 0, AsOfTime: at}
		if d.Evidence != want {
			t.Errorf("%s: got evidence %+v, want %+v", name, d.Evidence, want)
		}
		if d.Partition != 0 || d.Epoch != 0 || d.Seq != 0 {
			t.Errorf("%s: got partition %d, epoch %d, seq %d, want none: they are the publisher's", name, d.Partition, d.Epoch, d.Seq)
		}
	}
}

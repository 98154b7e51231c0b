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

// TestHowMuchARowMatters: a row that nothing depends on matters least, and a closed one most. Of open ones the one nearer to its limit matters
// more, also if its window is shorter.
func TestHowMuchARowMatters(t *testing.T) {
	r := rule(t, "limit: 8, window: 1m, algorithm: fixed, close_for: 1m, escalate: {factor: 2, max: 10m, forget: 5m}")
	short := rule(t, "limit: 8, window: 1s, algorithm: fixed")
	end, expiry := int64(minu), int64(minu)+2*int64(sec) // of the first window, and of its state
	was := Closure{CloseAt: 1, Until: end, Nth: 1, Peak: 8}
	for name, test := range map[string]struct {
		weight    int64
		c         Closure
		unlimited bool
		now       int64
		class     RankClass
		share     float64
	}{
		"nothing":                     {0, Closure{}, false, 5, RankExpired, 0},
		"its window is over":          {4, Closure{}, false, expiry - 1, RankOpen, 0},
		"it has expired":              {4, Closure{}, false, expiry, RankExpired, 0},
		"half full":                   {4, Closure{}, false, 5, RankOpen, 0.5},
		"half full, without a limit":  {4, Closure{}, true, 5, RankOpen, 0},
		"closed":                      {8, was, false, end - 1, RankClosed, 0},
		"it was closed":               {8, was, false, end, RankRemembering, 0},
		"it was closed, and is empty": {0, was, false, expiry, RankRemembering, 0},
		"that is forgotten":           {0, was, false, end + 5*int64(minu), RankExpired, 0},
		"it sends again":              {1, Closure{CloseAt: -2, Until: -1, Nth: 1, Peak: 8}, false, 5, RankOpen, 0.125},
	} {
		got := RankOf(r, held(r, 0, test.weight), test.c, 8, test.unlimited, test.now)
		if got.Class != test.class || got.Share != test.share {
			t.Errorf("%s: got class %d, and %v of the limit, want %d and %v", name, got.Class, got.Share, test.class, test.share)
		}
	}
	near, far := RankOf(short, held(short, 0, 5), Closure{}, 8, false, 5), RankOf(r, held(r, 0, 4), Closure{}, 8, false, 5)
	if near.Compare(far) <= 0 {
		t.Errorf("got %+v before %+v, want the nearer one to matter more", near, far)
	}
}

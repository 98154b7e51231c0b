package analyzer

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// TestSimulationWithPrediction is TestSimulation with owners that predict, and servers that say what the lag is and whom they
// blocked early. Whatever was predicted, and by which of the owners that died, counts are the truth to the unit; a recount of
// the log without prediction agrees; and no closure that is only predicted lasts for longer than it may.
func TestSimulationWithPrediction(t *testing.T) {
	testenv.Long(t)
	early, held := 0, 0
	simulate(t, 1, func(s *simulation) {
		s.predict = rules.PredictShares
		s.t.Cleanup(func() { early, held = early+s.seen["early decision"], held+s.seen["held decision"] })
	})
	if early == 0 || held == 0 {
		t.Errorf("got %d early decisions, and %d by requests in flight: an hour that shows nothing", early, held)
	}
}

// canary is an entry that says how long decisions take: half a second up to three, which is a lot for these callers' rates.
func (s *simulation) canary(now int64) schemas.Entry {
	return schemas.Entry{
		Time: now, Kind: schemas.KindCanary, ID: "canary", Count: 1, Cost: int64(time.Second)/2 + s.rnd.Int64N(int64(5*time.Second/2)),
	}
}

// predicted reports whether any closure of the decision is predicted. It checks that it ends by itself.
func (s *simulation) predicted(d *schemas.Decision) bool {
	s.t.Helper()
	span := d.Next
	if d.Early {
		span = schemas.Span{CloseAt: d.CloseAt, Until: d.Until, Early: true}
	}
	if !span.Early {
		return false
	}
	if d.Held {
		s.seen["held decision"]++
		if d.Rule != "tokens" || d.Caller.ID == "calm" || span.CloseAt/int64(time.Minute) != (span.Until-1)/int64(time.Minute) {
			s.t.Errorf("got a closure by requests in flight, want one by tokens, within one window, and not of the caller who is calm: %+v", d)
		}
		return true
	}
	s.seen["early decision"]++
	if length := time.Duration(span.Until - span.CloseAt); length <= 0 || length > 2*time.Second {
		s.t.Errorf("got a predicted closure of %v, want at most 2 s: %+v", length, d)
	}
	if s.predict == rules.PredictOff {
		s.t.Errorf("got a predicted closure from an owner that does not predict: %+v", d)
	}
	return true
}

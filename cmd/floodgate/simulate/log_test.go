package simulate

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// TestALogBeginsWithAKnownLag, however long it is: servers have measured it before the first line, and the analyzer has read so.
func TestALogBeginsWithAKnownLag(t *testing.T) {
	for _, lag := range []time.Duration{5 * ms, time.Second, 30 * time.Second, 10 * time.Minute} {
		log := NewLog(Options{Rules: ipRules(t, "limit: 100, window: 1h"), Lag: lag, Predict: rules.PredictEarly, Servers: 1}, []string{"ip"})
		if err := log.Line(&ingest.Line{Time: start, IDs: []string{"192.0.2.1"}}); err != nil {
			t.Fatal(err)
		}
		mean, _, ok := log.sim.w.partitions[0].fold.View().Lag()
		if got := time.Duration(mean); !ok || got < lag*8/10 || got > lag*13/10 {
			t.Errorf("got a lag of %v before the first line, known: %v; want some %v", got, ok, lag)
		}
	}
}

package simulate

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// TestRealLogAheadOfTime: early closures hold back at least half of what a long lag lets through, and close few innocents, if the cap
// of the lag allows them at all.
func TestRealLogAheadOfTime(t *testing.T) {
	dir := os.Getenv("FLOODGATE_LOGS")
	if dir == "" {
		t.Skip("FLOODGATE_LOGS does not name a directory with real logs")
	}
	combined, err := ingest.NewFormat("combined", ingest.Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lag       time.Duration
		off, over uint64  // requests over the limit, without prediction and with it
		longest   float64 // seconds
	}{{5 * time.Second, 164, 100, 15}, {30 * time.Second, 805, 400, 25}} {
		for most := rules.PredictOff; most <= rules.PredictShares; most++ {
			f, err := os.Open(filepath.Join(dir, "apache_combined.log.gz"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			a := replayed(t, replay.Config{
				Rules: ipRules(t, "limit: 20, window: 1m"), Format: combined, Lag: c.lag, Predict: most, PredictLagCap: 1,
				Inputs: []replay.Input{{Name: f.Name(), Reader: f}},
			}, "").summary.Accuracy
			switch {
			case most == rules.PredictOff && (a.Over != c.off || a.InnocentsClosed != 0):
				t.Errorf("lag %v, off: got %+v, want %d over", c.lag, a, c.off)
			case most > rules.PredictOff && (a.Over > c.over || a.InnocentsClosed > 3 || a.InnocentLongest > c.longest):
				t.Errorf("lag %v, %v: got %+v, want %d over, and 3 innocents for %v s, or less", c.lag, most, a, c.over, c.longest)
			}
		}
	}
}

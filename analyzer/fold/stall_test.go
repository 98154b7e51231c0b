package fold

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// TestAStallClosesNoInnocent: Kafka stands still. Then the backlogs of four servers come, one after the other. Whatever the algorithm, a
// caller below its limit stays open, and one at three times its limit is closed.
func TestAStallClosesNoInnocent(t *testing.T) {
	for _, c := range []struct {
		limit, burst  int64 // a burst of 0 is the limit
		window, stall time.Duration
		share         float64 // of the limit, that the caller sends
	}{
		{100, 0, time.Second, 5500 * time.Millisecond, 0.4},
		{1000, 0, time.Second, 5500 * time.Millisecond, 0.9},
		{1000, 0, time.Second, 5500 * time.Millisecond, 3},
		{60, 10, time.Minute, time.Minute, 0.4},
		{60, 10, time.Minute, time.Minute, 0.9},
		{60, 10, time.Minute, time.Minute, 3},
	} {
		for _, k := range window.Kinds() {
			rule := fmt.Sprintf("limit: %d, window: %s, algorithm: %s", c.limit, c.window, k.Name)
			if k.Burst && c.burst > 0 {
				rule += fmt.Sprint(", burst: ", c.burst)
			}
			t.Run(fmt.Sprintf("%s, at %.0f %%, %v", rule, c.share*100, c.stall), func(t *testing.T) {
				f := New(foldtest.Rules(t, "{name: r, callers: key, "+rule+"}"), Options{})
				random := rand.New(rand.NewPCG(1, 2))
				var servers [4][]int64
				pause := int64(float64(c.window) / (c.share * float64(c.limit)))
				for at := frameNow; at < frameNow+int64(c.stall); at += pause {
					n := random.IntN(len(servers))
					servers[n] = append(servers[n], at)
				}
				for _, times := range servers {
					for _, at := range times {
						f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "a", Count: 1})
					}
				}
				closed := time.Duration(0) // after the stall
				for _, change := range f.TakeChanges() {
					if change.Kind != policy.Closed && change.Kind != policy.Moved {
						t.Fatalf("got %+v, want no other changes", change)
					}
					closed = max(closed, time.Duration(change.Closure.Until-frameNow)-c.stall)
				}
				if c.share < 1 && closed > 0 || c.share > 1 && closed <= 0 {
					t.Errorf("got closed for %v after the stall", closed)
				}
			})
		}
	}
}

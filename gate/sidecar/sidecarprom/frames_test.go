package sidecarprom_test

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
)

var _ sidecarprom.Frames = (*feed.Frames)(nil)

// framesOf is a handler of frames that a test makes up.
type framesOf feed.FramesStats

func (s framesOf) Stats() feed.FramesStats { return feed.FramesStats(s) }

// TestMetricsOfFramesAreThoseThatPeopleQuery: all of them, and their values, are in testdata.
func TestMetricsOfFramesAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/frames.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := feed.NewFrames(feed.FramesOptions{}).Stats() // with all reasons
	s.Frames, s.Bytes, s.Sent = 1, 2, 3
	n := uint64(4)
	for _, reason := range []string{"malformed", "key", "partitions", "misplaced", "time", "refused", "too_large", "full", "slow", "unsent", "unknown"} {
		s.Refused[reason] = n
		n++
	}
	if err := testutil.CollectAndCompare(sidecarprom.NewFrames(framesOf(s)), file); err != nil {
		t.Error(err)
	}
}

package sidecarprom_test

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
)

var _ sidecarprom.Feed = (*feed.Server)(nil)

// feedOf is a server of a feed that a test makes up.
type feedOf feed.Stats

func (s feedOf) Stats() feed.Stats { return feed.Stats(s) }

// TestMetricsOfTheFeedAreThoseThatPeopleQuery: all of them, and their values, are in testdata.
func TestMetricsOfTheFeedAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/feed.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := sidecarprom.NewFeed(feedOf{
		Readers: 1, Lines: 2, Refused: map[string]uint64{"key": 3, "parameter": 4, "full": 5}, Cut: map[string]uint64{"slow": 6, "behind": 7},
	})
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
}

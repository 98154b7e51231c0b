package ingestprom_test

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer/ingest/ingestprom"
	"github.com/509da70d/floodgate/analyzer/ingest/receiver"
)

// TestMetricsOfAReceiver are those that people query, with a zero for each code that is likely.
func TestMetricsOfAReceiver(t *testing.T) {
	file, err := os.Open("testdata/receiver.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stats := receiver.Stats{Calls: map[string]uint64{"OK": 1, "Internal": 2, "Unimplemented": 3}, Intermediate: 4, Repeated: 5}
	if err := testutil.CollectAndCompare(ingestprom.NewReceiver(func() receiver.Stats { return stats }), file); err != nil {
		t.Error(err)
	}
}

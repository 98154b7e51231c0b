package api

import (
	"net/http"
	"testing"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// countingStats is an analyzer that counts how often it is asked for its numbers.
type countingStats struct {
	*fakeAnalyzer

	asked int
}

func (c *countingStats) Stats() []analyzer.OwnerStats {
	c.asked++
	return c.fakeAnalyzer.Stats()
}

// TestAStatusTakesTheNumbersOnce, and not once for each partition: each time is a copy of all numbers of all owners.
func TestAStatusTakesTheNumbersOnce(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 2), nil)
	b := *n.server.backend.Load()
	counting := &countingStats{fakeAnalyzer: w.analyzers[0]}
	b.Analyzer = counting
	n.server.Attach(&b)
	var v apiv1.Status
	a := n.get("/v1/status")
	a.want(t, http.StatusOK, "")
	a.into(t, &v)
	if counting.asked != 1 {
		t.Errorf("got %d questions for the numbers of owners, want 1", counting.asked)
	}
	for p, here := range []bool{true, false, true, false} {
		if v.Partitions[p].Here != here || here && v.Partitions[p].State != "running" {
			t.Errorf("partition %d: got %+v, want here: %v", p, v.Partitions[p], here)
		}
	}
}

package sidecarprom_test

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/bouncer"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
)

var _ sidecarprom.Bouncer = (*bouncer.Server)(nil)

// bouncerOf is a server of bouncers that a test makes up.
type bouncerOf bouncer.Stats

func (s bouncerOf) Stats() bouncer.Stats { return bouncer.Stats(s) }

// TestMetricsOfBouncersAreThoseThatPeopleQuery: all of them, and their values, are in testdata.
func TestMetricsOfBouncersAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/bouncer.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := sidecarprom.NewBouncer(bouncerOf{
		Requests: map[string]bouncer.Seconds{"delta": {Count: 3, Sum: 0.5, Buckets: map[float64]uint64{0.1: 2, 0.5: 3}}},
		Errors:   map[string]uint64{"forbidden": 4}, LeftOut: map[string]uint64{"short": 5},
		Added: 6, Deleted: 7, Closed: 8, Views: 9, Instances: 10,
	})
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
}

// TestAServerThatNoBouncerAsked shows zeros for each route and reason, so that an alert on a rate has something to begin with.
func TestAServerThatNoBouncerAsked(t *testing.T) {
	c := sidecarprom.NewBouncer(bouncer.New(bouncer.Options{Board: board.New(board.Options{})}))
	if n := testutil.CollectAndCount(c); n != 3+6+5+5+2 {
		t.Errorf("got %d series, want 21: three numbers, six routes, five errors, five reasons, two lists", n)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestBothCollectorsInOneRegistry, as the sidecar has them.
func TestBothCollectorsInOneRegistry(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(sidecarprom.New(sidecarOf{}), sidecarprom.NewBouncer(bouncer.New(bouncer.Options{Board: board.New(board.Options{})})))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 9+7 {
		t.Errorf("got %d metrics, want 16", len(families))
	}
}

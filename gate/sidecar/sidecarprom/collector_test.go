package sidecarprom_test

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
)

var _ sidecarprom.Sidecar = (*sidecar.Sidecar)(nil)

// sidecarOf is a sidecar that a test makes up.
type sidecarOf sidecar.Stats

func (s sidecarOf) Stats() sidecar.Stats { return sidecar.Stats(s) }

// TestMetricsAreThoseThatPeopleQuery: dashboards and alerts know the names, labels, types and helps. All of them, and their
// values, are in testdata; a change there is a change for those people.
func TestMetricsAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := sidecarprom.New(sidecarOf{
		HTTP: sidecar.Answers{Asked: 1, Refused: 2, Rejected: 3}, Authz: sidecar.Answers{Asked: 4, Refused: 5, Rejected: 6},
		RateLimit: sidecar.Answers{Asked: 7, Refused: 8}, Descriptors: 9,
		Quota: sidecar.Quota{
			Answers: sidecar.Answers{Asked: 10, Refused: 11}, Streams: 12, Buckets: 13, Ignored: 14, Crowded: 15, TurnedAway: 16, Unreadable: 17,
		},
	})
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
}

// TestASidecarThatWasAskedNothing shows zeros for each way of asking, so that an alert on a rate has something to begin with.
func TestASidecarThatWasAskedNothing(t *testing.T) {
	c := sidecarprom.New(sidecar.New(sidecar.Options{Set: gate.New(gate.Options{}), Callers: []gatehttp.CallerFunc{gatehttp.Header("key", "X-Api-Key")}}))
	if n := testutil.CollectAndCount(c); n != 19 {
		t.Errorf("got %d series, want 19: three of each of four ways, one of descriptors, and six of the quota service", n)
	}
	if n := testutil.CollectAndCount(c, "floodgate_sidecar_asked_total"); n != 4 {
		t.Errorf("got %d series of what was asked, want one for each way", n)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

package sidecarprom_test

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/haproxy"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
)

var _ sidecarprom.HAProxy = (*haproxy.Writer)(nil)

// haproxyOf is a writer of HAProxy's maps that a test makes up.
type haproxyOf haproxy.Stats

func (s haproxyOf) Stats() haproxy.Stats { return haproxy.Stats(s) }

// TestMetricsOfHAProxyAreThoseThatPeopleQuery: all of them, and their values, are in testdata.
func TestMetricsOfHAProxyAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/haproxy.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := sidecarprom.NewHAProxy(haproxyOf{
		Connected: true, Entries: map[string]int{"ip": 1}, Waiting: map[string]int{"ip": 2}, Added: 3, Changed: 4, Removed: 5,
		Repaired: 6, Fills: 7, Rewritten: 8, Failures: 9, Skipped: map[string]uint64{"shadow": 10},
	})
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestAHAProxyThatWasNotReached shows zeros, so that an alert on a rate has something to begin with.
func TestAHAProxyThatWasNotReached(t *testing.T) {
	c := sidecarprom.NewHAProxy(haproxy.New(haproxy.Options{Board: board.New(board.Options{}), Maps: []haproxy.Map{{Kind: "ip", Name: "m"}}}))
	if n := testutil.CollectAndCount(c); n != 5+2+3+2 {
		t.Errorf("got %d series, want 12: five numbers, two of the map, three commands, two reasons", n)
	}
}

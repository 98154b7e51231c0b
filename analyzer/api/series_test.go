package api

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// fakeSeries is samples that a test makes up: so many partitions, and so many requests in each second.
type fakeSeries struct{ covered, requests int }

func (f fakeSeries) Newest(now time.Time, seconds int) apiv1.Series {
	return apiv1.Series{
		From: now.UTC().Truncate(time.Second).Add(-time.Duration(seconds+1) * time.Second), StepNS: int64(time.Second),
		Covered: slices.Repeat([]int{f.covered}, seconds), Requests: slices.Repeat([]int64{int64(f.requests)}, seconds), Blocked: make([]int64, seconds),
		WouldBlock: make([]int64, seconds), Closes: make([]int64, seconds), LagNS: make([]int64, seconds), Ended: make([]int64, seconds), Overshoot: make([]float64, seconds),
	}
}

// atOneTime is a Config of a node whose clock stands, so that the samples of two analyzers are of the same seconds.
func atOneTime() func(*Config) {
	now := time.Now()
	return func(c *Config) { clustered(c); c.Clock = func() time.Time { return now } }
}

// partitionsByRules starts two analyzers that own two partitions each and count 100 and 300 requests a second, and returns their nodes.
func (w *world) counting(change func(*Config)) (one, two *node) {
	w.t.Helper()
	a, b := w.analyzer(0, 1), w.analyzer(2, 3)
	w.series = fakeSeries{2, 100}
	one = w.node(a, change)
	w.series = fakeSeries{2, 300}
	two = w.node(b, change)
	for p, n := range []*node{one, one, two, two} {
		w.board.beat(p, n.host())
	}
	return one, two
}

// TestAnyAnalyzerHasTheSeriesOfAll: each asks the other once, and adds what it counts itself.
func TestAnyAnalyzerHasTheSeriesOfAll(t *testing.T) {
	w := newWorld(t)
	one, two := w.counting(atOneTime())
	for _, n := range []*node{one, two} {
		var v apiv1.Series
		a := n.get("/v1/series")
		a.want(t, http.StatusOK, "")
		a.into(t, &v)
		if len(v.Requests) != 900 || v.Requests[0] != 400 || v.Covered[899] != 4 || v.Partitions != 4 || len(v.Missing) != 0 {
			t.Errorf("got %.300s, want 900 samples of 400 requests of 4 partitions", a.body)
		}
		n.get("/v1/series?seconds=2").into(t, &v)
		if !slices.Equal(v.Requests, []int64{400, 400}) {
			t.Errorf("got %v, want the last two", v.Requests)
		}
	}
	for _, query := range []string{"seconds=0", "seconds=901", "seconds=1.5", "seconds=", "partition=4", "partition=-1", "partition=x"} {
		one.get("/v1/series?"+query).want(t, http.StatusBadRequest, `"want"`)
	}
}

// TestAPartitionWithoutAnswerIsNamed, and what the others count is shown all the same: a page is wanted most when something is wrong.
func TestAPartitionWithoutAnswerIsNamed(t *testing.T) {
	w := newWorld(t)
	one, two := w.counting(atOneTime())
	missing := func(n *node, want ...int) apiv1.Series {
		t.Helper()
		var v apiv1.Series
		a := n.get("/v1/series?seconds=1")
		a.want(t, http.StatusOK, "")
		a.into(t, &v)
		if !slices.Equal(v.Missing, want) {
			t.Errorf("got %s, want missing %v", a.body, want)
		}
		return v
	}
	w.board.silence(3)
	if v := missing(one, 3); v.Requests[0] != 400 {
		t.Errorf("got %v, want what the owner of 2 has counted", v.Requests)
	}
	w.board.silence(2)
	if v := missing(one, 2, 3); v.Requests[0] != 100 || v.Covered[0] != 2 {
		t.Errorf("got %v of %v, want what this analyzer has counted", v.Requests, v.Covered)
	}
	missing(two) // which owns what is silent, and knows better
	w.board.beat(2, two.host())
	w.board.beat(3, testenv.FreeAddress(t))
	missing(one, 3)
	w.board.beat(3, two.host())
	w.analyzers[1].folds[3] = nil // taken away, and heartbeats do not say so yet
	missing(one, 3)
	none := w.node(w.analyzer(), atOneTime())
	w.board.silence(0)
	w.board.silence(1)
	missing(none, 0, 1, 3)
	unable := w.node(w.analyzer(), nil)
	missing(unable, 0, 1, 2, 3)
	w.node(nil, nil).get("/v1/series").want(t, http.StatusServiceUnavailable, "waits for Kafka")
}

// TestASeriesOfAStrangerIsNotAdded: an address in a heartbeat may answer anything.
func TestASeriesOfAStrangerIsNotAdded(t *testing.T) {
	w := newWorld(t)
	one, _ := w.counting(atOneTime())
	text := ""
	stranger := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(text)) }))
	defer stranger.Close()
	for p := range 2 {
		w.board.beat(2+p, stranger.Listener.Addr().String())
	}
	columns := `"step_ns":1000000000,"covered":[9],"requests":[9],"blocked":[9],"would_block":[9],"closes":[9],"lag_ns":[9],"ended":[9],"overshoot":[9]}`
	from := `{"from":"` + time.Now().UTC().Truncate(time.Second).Add(-2*time.Second).Format(time.RFC3339) + `",`
	for _, text = range []string{
		"", "{}", "[]", from + columns[1:], from + `"missing":[1],` + columns, from + `"missing":[2,2],` + columns, `{"from":"12","` + columns, from + `"covered":null,` + columns + "}",
	} {
		var v apiv1.Series
		a := one.get("/v1/series?seconds=1")
		a.into(t, &v)
		if a.status != http.StatusOK || !slices.Equal(v.Missing, []int{2, 3}) || v.Requests[0] != 100 {
			t.Errorf("%s: got %d %s, want 2 and 3 to be missing", text, a.status, a.body)
		}
	}
	text = from + `"missing":[3],` + columns
	var v apiv1.Series
	if one.get("/v1/series?seconds=900").into(t, &v); !slices.Equal(v.Missing, []int{3}) || !slices.Contains(v.Requests, 109) {
		t.Errorf("got %v, want the sum with what is a series", v.Missing)
	}
}

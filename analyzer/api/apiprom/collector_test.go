package apiprom_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiprom"
	"github.com/509da70d/floodgate/analyzer/histogram"
)

// serverOf is a server that a test makes up.
type serverOf api.Stats

func (s serverOf) Stats() api.Stats { return api.Stats(s) }

// TestMetricsAreThoseThatPeopleQuery: dashboards and alerts know the names, labels, types and helps. All of them, and their
// values, are in testdata; a change there is a change for those people.
func TestMetricsAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	h := histogram.New([]float64{0.1, 1})
	h.Observe(0.0625)
	h.Observe(2)
	c := apiprom.New(serverOf{
		Requests: map[string]uint64{"caller": 1, "decisions/stream": 2}, Errors: map[string]uint64{"404": 3, "other": 4},
		Seconds: h.Snapshot(), Streams: 5,
	}.Stats)
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
}

// TestAServerThatNobodyAsked shows zeros for each route and status, so that an alert on a rate has something to begin with; a
// stranger's requests add no series.
func TestAServerThatNobodyAsked(t *testing.T) {
	s, err := api.New(api.Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	c := apiprom.New(s.Stats)
	n := testutil.CollectAndCount(c)
	if n < 30 || n > 50 {
		t.Errorf("got %d series, want one for each route and status", n)
	}
	for _, path := range []string{"/", "/v1/caller", "/v1/a", "/v1/b?c=d", "/v1/\xff"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	if again := testutil.CollectAndCount(c); again != n {
		t.Errorf("got %d series after requests for nothing, want the %d from before", again, n)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

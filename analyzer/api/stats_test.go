package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// eventuallyStats waits until a server has counted what a test wants: an answer arrives before it is counted.
func eventuallyStats(t *testing.T, s *Server, wanted func(v *Stats) bool) Stats {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		v := s.Stats()
		if wanted(&v) {
			return v
		}
		select {
		case <-deadline:
			t.Fatalf("got %+v", v)
		case <-time.After(time.Millisecond):
		}
	}
}

// nonzero returns what was counted at all.
func nonzero(m map[string]uint64) map[string]uint64 {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_ string, n uint64) bool { return n == 0 })
	return m
}

// TestRequestsAreCountedByRoute, problems by status, and what a stranger makes up is one route.
func TestRequestsAreCountedByRoute(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), nil)
	for range 3 {
		n.get("/v1/status").want(t, http.StatusOK, "partitions")
	}
	n.get("/v1/caller?caller=key:a").want(t, http.StatusOK, "")
	n.get("/v1/caller").want(t, http.StatusBadRequest, "")
	n.get("/v1/made/up").want(t, http.StatusNotFound, "")
	n.get("/another/made/up").want(t, http.StatusNotFound, "")
	n.get("/v1/status", "Host", "evil.example").want(t, http.StatusMisdirectedRequest, "")
	n.post("/v1/mode", body("rule", "r", "mode", "shadow", "reason", "r")).want(t, http.StatusForbidden, "")
	got := eventuallyStats(t, n.server, func(v *Stats) bool { return v.Seconds.Count == 9 })
	if want := map[string]uint64{"status": 3, "caller": 2, "mode": 1, "other": 3}; !maps.Equal(nonzero(got.Requests), want) {
		t.Errorf("got requests %v, want %v", nonzero(got.Requests), want)
	}
	if want := map[string]uint64{"400": 1, "403": 1, "404": 2, "421": 1}; !maps.Equal(nonzero(got.Errors), want) {
		t.Errorf("got errors %v, want %v", nonzero(got.Errors), want)
	}
	if got.Seconds.Sum <= 0 {
		t.Errorf("got %v s for nine answers, want more than none", got.Seconds.Sum)
	}
}

// TestEachRouteIsThereFromTheStart, with zero, and so is each status of a problem.
func TestEachRouteIsThereFromTheStart(t *testing.T) {
	w := newWorld(t)
	v := w.node(nil, nil).server.Stats()
	for _, r := range (&Server{}).routeTable() {
		if n, ok := v.Requests[strings.TrimPrefix(r.path, "/v1/")]; !ok || n != 0 {
			t.Errorf("%s: got %d, %v, want 0 from the start", r.path, n, ok)
		}
	}
	if want := append(problemStatuses(), otherLabel); len(v.Errors) != len(want) || len(nonzero(v.Errors)) != 0 {
		t.Errorf("got %v, want %v, all 0", slices.Sorted(maps.Keys(v.Errors)), want)
	}
	if v.Seconds.Count != 0 || v.Streams != 0 {
		t.Errorf("got %+v, want none", v)
	}
}

// TestAStreamIsNoSlowAnswer: it counts while it is open, and as a request when it has ended, however long it took.
func TestAStreamIsNoSlowAnswer(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), nil)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/v1/decisions/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if v := n.server.Stats(); v.Streams != 1 || v.Requests["decisions/stream"] != 0 {
		t.Errorf("got %d open and %d ended, want 1 and 0", v.Streams, v.Requests["decisions/stream"])
	}
	leave()
	v := eventuallyStats(t, n.server, func(v *Stats) bool { return v.Requests["decisions/stream"] == 1 && v.Streams == 0 })
	if v.Seconds.Count != 0 {
		t.Errorf("got %d answers that were timed, want none", v.Seconds.Count)
	}
}

// TestAStatusThatNoRouteGives has no label of its own: another analyzer, of another version, may answer anything.
func TestAStatusThatNoRouteGives(t *testing.T) {
	n := newCounters(nil)
	for _, status := range []int{418, 599, 404} {
		n.note(&call{status: status}, -time.Hour)
	}
	if got := n.errors[otherLabel].Load(); got != 2 {
		t.Errorf("got %d under other, want 2", got)
	}
	if got := n.seconds.Snapshot(); got.Count != 3 || got.Sum != 0 {
		t.Errorf("got %+v, want three answers that took no time, as the clock was set back", got)
	}
}

package api

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/histogram"
)

// Stats is a snapshot of what a Server has answered. Counters are since New.
type Stats struct {
	Requests map[string]uint64  // by route, without the version: caller, decisions/stream and so on; other: refused before its route was found, or there is none
	Errors   map[string]uint64  // answers that are problems, by status: 400 and so on; other: one that no route gives
	Seconds  histogram.Snapshot // from a request to its answer; streams are not in it, since they last
	Streams  int                // open now
}

// otherLabel is the label for values that strangers can choose: paths that do not exist, and statuses of other analyzers.
const otherLabel = "other"

// problemStatuses are the statuses of the problems with which routes answer. Each is shown from the start, so that a rate has
// something to begin with.
func problemStatuses() []string {
	return []string{"400", "401", "403", "404", "405", "409", "413", "415", "421", "422", "429", "500", "502", "503", "508"}
}

// counters are what Stats reports. The maps do not change after newCounters.
type counters struct {
	requests map[string]*atomic.Uint64 // by path
	errors   map[string]*atomic.Uint64 // by status

	mu      sync.Mutex // for Observe
	seconds *histogram.Histogram
}

func newCounters(routes []route) *counters {
	n := &counters{
		requests: map[string]*atomic.Uint64{otherLabel: new(atomic.Uint64)}, errors: map[string]*atomic.Uint64{otherLabel: new(atomic.Uint64)},
		seconds: histogram.New([]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 2.5, 10}),
	}
	for i := range routes {
		n.requests[routes[i].path] = new(atomic.Uint64)
	}
	for _, status := range problemStatuses() {
		n.errors[status] = new(atomic.Uint64)
	}
	return n
}

// note counts an answer: also one that a panic has cut off.
func (n *counters) note(c *call, took time.Duration) {
	path, lasts := otherLabel, false
	if c.route != nil {
		path, lasts = c.route.path, c.route.endless
	}
	n.requests[path].Add(1)
	if c.status >= http.StatusBadRequest {
		counter := n.errors[integer(c.status)]
		if counter == nil {
			counter = n.errors[otherLabel]
		}
		counter.Add(1)
	}
	if !lasts {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.seconds.Observe(max(0, took.Seconds())) // a clock may be set back
	}
}

// Stats returns a snapshot.
func (s *Server) Stats() Stats {
	v := Stats{
		Requests: make(map[string]uint64), Errors: make(map[string]uint64),
		Seconds: s.counters.seconds.Snapshot(), Streams: s.streams.count(),
	}
	for path, n := range s.counters.requests {
		v.Requests[strings.TrimPrefix(path, "/v1/")] = n.Load()
	}
	for status, n := range s.counters.errors {
		v.Errors[status] = n.Load()
	}
	return v
}

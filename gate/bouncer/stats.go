package bouncer

import (
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/gate/board"
)

// Reasons of errors, as Stats counts them.
const (
	errorForbidden = iota // no key, or a wrong one
	errorNotReady         // decisions were not read in time
	errorQuery            // a query that cannot be answered
	errorCut              // the answer was not sent whole
	errorOther            // another path or method
	errorReasons
)

// Bounds of Seconds, in seconds.
var bounds = [...]float64{0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10}

// counters are what Stats reports.
type counters struct {
	requests       [routes]seconds
	errors         [errorReasons]atomic.Uint64
	leftOut        [leftReasons]atomic.Uint64
	added, deleted atomic.Uint64
}

// seconds counts answers by how long they took.
type seconds struct {
	buckets [len(bounds) + 1]atomic.Uint64
	sum     atomic.Int64 // nanoseconds
}

func (s *seconds) note(d time.Duration) {
	i := 0
	for i < len(bounds) && d.Seconds() > bounds[i] {
		i++
	}
	s.buckets[i].Add(1)
	s.sum.Add(int64(d))
}

// Seconds are answers by how long they took.
type Seconds struct {
	Count   uint64
	Sum     float64            // seconds
	Buckets map[float64]uint64 // how many took this many seconds at most
}

func (s *seconds) snapshot() Seconds {
	n := Seconds{Sum: time.Duration(s.sum.Load()).Seconds(), Buckets: map[float64]uint64{}}
	for i := range s.buckets {
		n.Count += s.buckets[i].Load()
		if i < len(bounds) {
			n.Buckets[bounds[i]] = n.Count
		}
	}
	return n
}

// Stats is a snapshot of a Server. Counters are since New.
type Stats struct {
	Requests map[string]Seconds // by route: startup, delta, decisions, usage_metrics, health, other
	Errors   map[string]uint64  // by reason: forbidden, not_ready, query, cut, other
	LeftOut  map[string]uint64  // closures, and changes of closures, that no bouncer is given, by reason: kind, address, shadow, early, short

	Added, Deleted uint64 // items that were sent in "new" and in "deleted"
	Closed         int    // addresses that are closed now, of the view without a filter
	Views          int
	Instances      int // of bouncers whose deltas are kept
}

// Stats returns a snapshot.
func (s *Server) Stats() Stats {
	n := Stats{
		Requests: map[string]Seconds{}, Errors: map[string]uint64{}, LeftOut: map[string]uint64{},
		Added: s.stats.added.Load(), Deleted: s.stats.deleted.Load(),
	}
	for i, name := range [routes]string{"startup", "delta", "decisions", "usage_metrics", "health", "other"} {
		n.Requests[name] = s.stats.requests[i].snapshot()
	}
	for i, name := range [errorReasons]string{"forbidden", "not_ready", "query", "cut", "other"} {
		n.Errors[name] = s.stats.errors[i].Load()
	}
	for i, name := range [leftReasons]string{"kind", "address", "shadow", "early", "short"} {
		n.LeftOut[name] = s.stats.leftOut[i].Load()
	}
	for _, v := range s.all() {
		v.mu.Lock()
		n.Views++
		n.Instances += len(v.instances)
		if v.rules.key() == (ruleFilter{}).key() {
			n.Closed = v.table.closed
		}
		v.mu.Unlock()
	}
	return n
}

// count counts a closure that is left out.
func (s *Server) count(e *board.Event) {
	if e.Kind != board.Closed && e.Kind != board.Changed && e.Kind != board.InForce {
		return
	}
	reason, ok := exclusion(&e.Decision, s.options.MinClosure)
	if !ok && s.options.Shadow {
		reason, ok = leftShadow, true
	}
	if ok {
		s.stats.leftOut[reason].Add(1)
	}
}

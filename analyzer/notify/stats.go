package notify

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Stats are the numbers of a Notifier at one moment.
type Stats struct {
	Refused   bool            // the newest settings have a mistake, and those from before are in use
	Endpoints []EndpointStats // by name
}

// EndpointStats are the numbers of one endpoint. Counters begin at nothing when the endpoint does.
type EndpointStats struct {
	Name       string
	Delivered  uint64            // events
	Digests    uint64            // messages with several events
	Dropped    map[string]uint64 // events, by reason
	Pending    int               // events in memory that are neither delivered nor dropped
	Oldest     time.Time         // when the oldest of them was written; zero if there is none
	Disabled   bool              // it has answered 410
	Unreadable uint64            // messages of the topic that are no events
	Unknown    uint64            // events of later versions
	Lost       uint64            // messages that the topic no longer had, or that are damaged
}

// Stats returns the numbers of now.
func (n *Notifier) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Stats{Refused: n.refused != ""}
	for _, w := range n.workers {
		s.Endpoints = append(s.Endpoints, w.snapshot())
	}
	slices.SortFunc(s.Endpoints, func(a, b EndpointStats) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func (w *worker) snapshot() EndpointStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Name, s.Pending, s.Disabled, s.Dropped = w.name, w.queue.pending, w.disabled, maps.Clone(w.stats.Dropped)
	for _, l := range w.ledgers {
		if p, ok := l.oldest(); ok && (s.Oldest.IsZero() || p.written.Before(s.Oldest)) {
			s.Oldest = p.written
		}
	}
	return s
}

func (w *worker) hasJoined() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.joined
}

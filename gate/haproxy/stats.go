package haproxy

import (
	"sync/atomic"
)

// Reasons for which decisions are not written, as Stats counts them.
const (
	skippedAddress = iota // the caller is of kind ip, and its id is no address that gates look up
	skippedShadow         // the mode is shadow
	skippedReasons
)

// counters are what Stats reports.
type counters struct {
	added, changed, removed    atomic.Uint64
	repaired, fills, rewritten atomic.Uint64
	failures                   atomic.Uint64
	skipped                    [skippedReasons]atomic.Uint64
	connected                  atomic.Bool
}

// Stats is a snapshot of a Writer. Counters are since New.
type Stats struct {
	Connected bool           // HAProxy answered last, and has the maps
	Entries   map[string]int // that HAProxy has, as far as is known, by kind
	Waiting   map[string]int // entries that are to be written, by kind; those that are over are among them

	Added, Changed, Removed uint64            // entries, by command
	Repaired                uint64            // entries that differed although HAProxy was not started again
	Fills                   uint64            // processes of HAProxy whose maps were filled
	Rewritten               uint64            // new versions of a map
	Failures                uint64            // sessions that failed
	Skipped                 map[string]uint64 // decisions that are not written, by reason: address, shadow
}

// Stats returns a snapshot.
func (w *Writer) Stats() Stats {
	n := Stats{
		Connected: w.stats.connected.Load(), Entries: map[string]int{}, Waiting: map[string]int{}, Skipped: map[string]uint64{},
		Added: w.stats.added.Load(), Changed: w.stats.changed.Load(), Removed: w.stats.removed.Load(),
		Repaired: w.stats.repaired.Load(), Fills: w.stats.fills.Load(), Rewritten: w.stats.rewritten.Load(), Failures: w.stats.failures.Load(),
	}
	for i, name := range [skippedReasons]string{"address", "shadow"} {
		n.Skipped[name] = w.stats.skipped[i].Load()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tables {
		n.Entries[t.kind] = t.held
		n.Waiting[t.kind] = t.waits[queueAdd] + t.waits[queueUrgent] + t.waits[queueLazy]
	}
	return n
}

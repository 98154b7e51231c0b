package feed

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// counters count since the start.
type counters struct {
	lines, entries, frames, bytes, retries, lost atomic.Uint64
	queued                                       atomic.Int64
	rejected                                     [ingest.Reasons]atomic.Uint64

	mu      sync.Mutex
	skipped map[string]uint64 // guarded by mu: records by reason; a handful
}

// skip counts records that could not be read.
func (c *counters) skip(reason string, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.skipped == nil {
		c.skipped = make(map[string]uint64)
	}
	c.skipped[reason] += n
}

func (c *counters) skips() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.skipped)
}

// Stats is a snapshot of what a Feed has done. Lines = those that became entries + Rejected + Dropped.
type Stats struct {
	Lines    uint64
	Entries  uint64
	Frames   uint64
	Bytes    uint64            // queued for Kafka
	Retries  uint64            // requests that failed and were sent again
	Queued   int64             // bytes that wait for Kafka now
	Dropped  uint64            // lines that a drop filter matches, and headers
	Rejected map[string]uint64 // lines that could not be read, by reason
	Skipped  map[string]uint64 // records of foreign topics that could not be read, by reason; nil is none
	Lost     uint64            // records that a foreign topic had deleted before they were read
	Sources  []SourceStats     // the open sources, by name
	Topics   []TopicStats      // the topics that are read, in the order in which reading began
}

// TopicStats is a snapshot of one topic.
type TopicStats struct {
	Name       string
	Partitions int // as counted last; 0: the topic is missing, or hidden by ACLs, or was not counted yet
}

// SourceStats is a snapshot of the open sources of one name: a partition of a topic, or all logs of a file's path.
type SourceStats struct {
	Name  string
	Acked int64 // everything of the newest of them before this position is in Kafka
	Lag   int64 // from Acked to the end of the log, of all of them: bytes of a file, records of a partition
}

// Stats returns a snapshot.
func (f *Feed) Stats() Stats {
	c := &f.count
	s := Stats{
		Lines: c.lines.Load(), Entries: c.entries.Load(), Frames: c.frames.Load(), Bytes: c.bytes.Load(), Retries: c.retries.Load(),
		Queued: c.queued.Load(), Skipped: c.skips(), Lost: c.lost.Load(), Rejected: make(map[string]uint64),
	}
	for r := range ingest.Reasons {
		switch n := c.rejected[r].Load(); {
		case n == 0:
		case r.Rejected():
			s.Rejected[r.String()] = n
		default:
			s.Dropped += n
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	sources := slices.SortedFunc(maps.Keys(f.sources), func(a, b *Source) int { return cmp.Compare(a.number, b.number) })
	byName := make(map[string]SourceStats)
	for _, src := range sources {
		src.mu.Lock()
		byName[src.name] = SourceStats{Name: src.name, Acked: src.acked, Lag: byName[src.name].Lag + max(0, src.end-src.acked)}
		src.mu.Unlock()
	}
	s.Sources = slices.Collect(maps.Values(byName))
	for _, t := range f.topics {
		s.Topics = append(s.Topics, TopicStats{Name: t.Name, Partitions: t.presence.partitions()})
	}
	slices.SortFunc(s.Sources, func(a, b SourceStats) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

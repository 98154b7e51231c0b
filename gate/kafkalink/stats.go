package kafkalink

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/gate/record"
)

// Stats is a snapshot of a Link.
type Stats struct {
	Connected  bool // the last call to Kafka of each reader and sender succeeded
	Partitions int  // 0 until Kafka was reached once
	Lag        Lag
	Age        time.Duration // time since the newest heartbeat, of the partition where that is longest ago

	Frames   uint64 // frames sent, each counted once
	Retries  uint64 // how often a frame was sent again
	Canaries uint64 // canaries sent
	Backlog  int    // entries that wait for Kafka; those in the Recorder are not counted here

	Decisions  uint64            // applied
	Heartbeats uint64            // accepted
	Refused    map[string]uint64 // records of the decisions topic that were not, by decisions.Reason or kafkaio.SkipReason
	Restarts   uint64            // how often a reader lost its place and searched for the newest heartbeat again

	Requests record.Stats // the outcomes of the Recorder's requests
}

// counts are a Link's counters.
type counts struct {
	partitions                      atomic.Int64
	frames, retries, canaries       atomic.Uint64
	decisions, heartbeats, restarts atomic.Uint64

	mu      sync.Mutex // protects what follows
	refused map[string]uint64
	queues  []*queue // of the session that runs
}

func (c *counts) refuse(reason string, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = make(map[string]uint64)
	}
	c.refused[reason] += n
}

func (c *counts) setQueues(qs []*queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queues = qs
}

// Stats returns a snapshot.
func (l *Link) Stats() Stats {
	c := &l.counts
	s := Stats{
		Connected: l.health.connected(), Partitions: int(c.partitions.Load()),
		Lag: l.canaries.lag(), Age: l.set.Status().Age,
		Frames: c.frames.Load(), Retries: c.retries.Load(), Canaries: c.canaries.Load(),
		Decisions: c.decisions.Load(), Heartbeats: c.heartbeats.Load(), Restarts: c.restarts.Load(),
		Requests: l.rec.Stats(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Refused = maps.Clone(c.refused)
	for _, q := range c.queues {
		s.Backlog += q.len()
	}
	return s
}

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
	Connected  bool // everybody's last call to Kafka succeeded
	Partitions int  // 0 until Kafka was reached once
	Lag        Lag
	Age        time.Duration // of the decisions: since the newest heartbeat of the partition heard of longest ago

	Frames   uint64 // given a sequence number and sent, once or more
	Retries  uint64 // of them
	Canaries uint64 // sent
	Backlog  int    // entries that wait for Kafka, beside those in the Recorder

	Decisions  uint64            // applied
	Heartbeats uint64            // accepted
	Refused    map[string]uint64 // records of the decisions topic that were not, by reason
	Restarts   uint64            // of followers that lost their place and looked for the newest heartbeat again

	Requests record.Stats // what has become of the Recorder's requests
}

// Reasons of Stats.Refused, beside those of schemas/pb for what cannot be read, and kafkaio's SkipReasons.
const (
	refusedPartition = "partition" // about another partition than the one it was read from
	refusedFenced    = "fenced"    // of an owner that was replaced, or a repetition
	refusedCorrupt   = "corrupt"   // the log is damaged here
)

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

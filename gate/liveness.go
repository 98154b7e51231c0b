package gate

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Freshness says how current a partition's decisions are.
type Freshness uint8

// Freshness of a partition. In the zero value no heartbeat has come yet.
const (
	Cold  Freshness = iota // no heartbeat yet: its callers are open
	Fresh                  // heartbeats arrive
	Stale                  // heartbeats have stopped
)

// String returns "cold", "fresh", "stale" or "unknown".
func (f Freshness) String() string {
	switch f {
	case Cold:
		return "cold"
	case Fresh:
		return "fresh"
	case Stale:
		return "stale"
	}
	return "unknown"
}

// liveness keeps the heartbeats of the partitions. Its times are nanoseconds since start, by the monotonic clock if the time
// has a reading of it. So a change of the wall clock makes no partition stale.
type liveness struct {
	start      time.Time
	staleAfter time.Duration
	earliest   atomic.Int64                // when the first partition goes stale; MaxInt64 while all are cold
	parts      atomic.Pointer[[]partition] // replaced when their number changes

	reported []Freshness // what was logged last; only the writer uses it
	looked   time.Time   // when that was; only the writer uses it
}

// partition keeps the newest heartbeat of one partition of decisions.
type partition struct {
	heardAt   atomic.Int64 // when the newest heartbeat was received, plus 1; 0 if none was
	heartbeat atomic.Pointer[schemas.Heartbeat]
}

// Partitions sets how many partitions of decisions there are. Partitions that remain keep their heartbeats.
func (s *Set) Partitions(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.liveness.resize(max(0, n))
}

// Heartbeat stores a heartbeat: the partition's owner was alive at the time received, which may be long ago. That time is of the
// receiver's clock, not of the sender's. Heartbeats of partitions that Partitions did not announce are dropped and counted.
func (s *Set) Heartbeat(h schemas.Heartbeat, received time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := s.liveness.partitions()
	if h.Partition < 0 || int(h.Partition) >= len(parts) {
		s.writer.counts.invalid++
		return
	}
	p := &parts[h.Partition]
	p.heartbeat.Store(&h)
	p.heardAt.Store(max(p.heardAt.Load(), int64(received.Sub(s.liveness.start))+1, 1))
	s.liveness.updateEarliest()
	s.liveness.report(s.logger, received)
}

func (p *liveness) partitions() []partition {
	if parts := p.parts.Load(); parts != nil {
		return *parts
	}
	return nil
}

func (p *liveness) resize(n int) {
	old := p.partitions()
	if n == len(old) {
		return
	}
	parts := make([]partition, n)
	for i := range min(n, len(old)) {
		parts[i].heardAt.Store(old[i].heardAt.Load())
		parts[i].heartbeat.Store(old[i].heartbeat.Load())
	}
	p.parts.Store(&parts)
	p.reported = append(p.reported, make([]Freshness, n)...)[:n]
	p.updateEarliest()
}

// updateEarliest finds when the first partition goes stale.
func (p *liveness) updateEarliest() {
	first := int64(math.MaxInt64)
	parts := p.partitions()
	for i := range parts {
		if heardAt := parts[i].heardAt.Load(); heardAt != 0 {
			first = min(first, heardAt-1+int64(p.staleAfter))
		}
	}
	p.earliest.Store(first)
}

// anyStale reports whether a partition is stale.
func (p *liveness) anyStale(now time.Time) bool { return int64(now.Sub(p.start)) >= p.earliest.Load() }

// freshness returns the freshness of a partition; a partition that does not exist is cold.
func (p *liveness) freshness(i int32, now time.Time) Freshness {
	parts := p.partitions()
	if i < 0 || int(i) >= len(parts) {
		return Cold
	}
	heardAt := parts[i].heardAt.Load()
	switch {
	case heardAt == 0:
		return Cold
	case int64(now.Sub(p.start))-(heardAt-1) >= int64(p.staleAfter):
		return Stale
	}
	return Fresh
}

// report logs partitions whose freshness changed. A heartbeat may be older than the last look.
func (p *liveness) report(l *slog.Logger, now time.Time) {
	if now.Before(p.looked) {
		now = p.looked
	}
	p.looked = now
	for i := range p.reported {
		f := p.freshness(int32(i), now)
		if f == p.reported[i] {
			continue
		}
		level := slog.LevelInfo
		if f == Stale {
			level = slog.LevelWarn
		}
		l.Log(context.Background(), level, "gate decisions are "+f.String(), "partition", i)
		p.reported[i] = f
	}
}

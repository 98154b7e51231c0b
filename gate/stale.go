package gate

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Policy is what holds while decisions are stale: when a partition of decisions that has sent heartbeats has sent none
// for Options.StaleAfter.
type Policy uint8

// Policies. The zero value holds.
const (
	Hold   Policy = iota // closures stay until they end; none are added
	Open                 // closures decided in a stale partition are ignored
	Closed               // while any partition is stale, all callers are refused: a Set cannot tell whose partition it is
	Local                // while any partition is stale, Options.Local decides on callers that are not closed
)

// String returns "hold", "open", "closed", "local" or "unknown".
func (p Policy) String() string {
	switch p {
	case Hold:
		return "hold"
	case Open:
		return "open"
	case Closed:
		return "closed"
	case Local:
		return "local"
	}
	return "unknown"
}

// Limiter decides on callers by itself. It must not block or allocate, and must be safe for concurrent use. The hash is
// of kind and id and seeded per process, so that a Limiter may take it for the caller.
type Limiter interface {
	Allow(kind string, hash uint64, now time.Time) bool
}

// Freshness says how current a partition's decisions are.
type Freshness uint8

// Freshness of a partition. The zero value has not been heard of.
const (
	Cold  Freshness = iota // no heartbeat yet: its callers are open
	Fresh                  // heartbeats come
	Stale                  // they stopped
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

// staleRetry is what callers that are refused because decisions are stale are told to wait: a heartbeat.
const staleRetry = time.Second

// watchful reports whether answers depend on staleness for callers that are not closed.
func (s *Set) watchful() bool { return s.policy == Closed || s.policy == Local }

// refusesStale reports whether a caller that is not closed is refused because decisions are stale.
func (s *Set) refusesStale(g *Gate, hash uint64, now time.Time) bool {
	return s.pulse.anyStale(now) && (s.policy == Closed || !s.local.Allow(g.kind, hash, now))
}

// checkStale refuses a request of callers that are not closed, if decisions are stale and the policy says so.
func (s *Set) checkStale(v *Verdict, c *Callers, now time.Time) {
	for i := range c.n {
		if k := &c.at[i]; s.refusesStale(k.gate, k.hash, now) {
			*v = Verdict{Closed: true, Stale: true, Shadow: v.Shadow, RetryAfter: staleRetry, Until: now.Add(staleRetry)}
			return
		}
	}
}

// pulse keeps the heartbeats. Times are nanoseconds since start by the monotonic clock, where there is one: setting the
// clock makes nothing stale.
type pulse struct {
	start    time.Time
	after    time.Duration
	earliest atomic.Int64                // when the first partition goes stale; MaxInt64 while all are cold
	parts    atomic.Pointer[[]partition] // replaced when their number changes

	reported []Freshness // the writer's: what the log was told
}

// partition is what is known of one partition of decisions.
type partition struct {
	heard atomic.Int64 // when, plus 1; 0 is never
	last  atomic.Pointer[schemas.Heartbeat]
}

// Partitions says how many partitions of decisions there are. What is known of those that stay is kept.
func (s *Set) Partitions(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulse.resize(max(0, n))
}

// Heartbeat takes over that a partition's owner was alive when its heartbeat was received, which is the receiver's
// time, not the sender's. Heartbeats of partitions that Partitions did not announce are dropped.
func (s *Set) Heartbeat(h schemas.Heartbeat, received time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := s.pulse.partitions()
	if h.Partition < 0 || int(h.Partition) >= len(parts) {
		s.writer.counts.invalid++
		return
	}
	p := &parts[h.Partition]
	p.last.Store(&h)
	p.heard.Store(max(p.heard.Load(), int64(received.Sub(s.pulse.start))+1, 1))
	s.pulse.settle()
	s.pulse.report(s.logger, received)
}

func (p *pulse) partitions() []partition {
	if parts := p.parts.Load(); parts != nil {
		return *parts
	}
	return nil
}

func (p *pulse) resize(n int) {
	old := p.partitions()
	if n == len(old) {
		return
	}
	parts := make([]partition, n)
	for i := range min(n, len(old)) {
		parts[i].heard.Store(old[i].heard.Load())
		parts[i].last.Store(old[i].last.Load())
	}
	p.parts.Store(&parts)
	p.reported = append(p.reported, make([]Freshness, n)...)[:n]
	p.settle()
}

// settle finds when the first partition goes stale.
func (p *pulse) settle() {
	first := int64(math.MaxInt64)
	parts := p.partitions()
	for i := range parts {
		if heard := parts[i].heard.Load(); heard != 0 {
			first = min(first, heard-1+int64(p.after))
		}
	}
	p.earliest.Store(first)
}

// anyStale reports whether a partition is stale.
func (p *pulse) anyStale(now time.Time) bool { return int64(now.Sub(p.start)) >= p.earliest.Load() }

// freshness returns the state of a partition; one that does not exist is cold.
func (p *pulse) freshness(i int32, now time.Time) Freshness {
	parts := p.partitions()
	if i < 0 || int(i) >= len(parts) {
		return Cold
	}
	heard := parts[i].heard.Load()
	switch {
	case heard == 0:
		return Cold
	case int64(now.Sub(p.start))-(heard-1) >= int64(p.after):
		return Stale
	}
	return Fresh
}

// report logs partitions whose freshness changed.
func (p *pulse) report(l *slog.Logger, now time.Time) {
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

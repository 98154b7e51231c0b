package gate

import (
	"time"
)

// Status is a snapshot of a Set, for metrics and for people.
type Status struct {
	Mode   Mode
	Policy Policy

	Closed int // callers with an enforcing closure: in force, about to be, or ended and not yet swept
	Shadow int // callers with shadow closures only, likewise
	Kinds  []KindStatus
	Bytes  int // memory of the table

	Cold, Fresh, Stale int // partitions
	Partitions         []PartitionStatus
	Age                time.Duration // of the oldest partition's newest heartbeat: how old what the Set knows may be
	Decided            time.Time     // when decisions were last applied; zero if never

	Applied  uint64 // decisions
	Full     uint64 // dropped because Options.MaxClosed callers were closed: these callers stay open
	Invalid  uint64 // decisions and heartbeats dropped because they made no sense
	Expired  uint64 // callers swept
	Rebuilds uint64 // of the table
	Refused  uint64 // callers of requests that were not acceptable: id too long, or too many callers
}

// KindStatus is the part of one kind of caller.
type KindStatus struct {
	Kind           string
	Closed, Shadow int
}

// PartitionStatus is what is known of one partition of decisions.
type PartitionStatus struct {
	Partition int
	Freshness Freshness
	Age       time.Duration // since its newest heartbeat was received; 0 while cold
	Epoch     uint64
	Watermark int64         // next offset of requests to be counted, as of that heartbeat
	Lag       time.Duration // from a request to its decision published, as the owner measured it
}

// Status returns a snapshot.
func (s *Set) Status() Status { return s.StatusAt(time.Now()) }

// StatusAt returns a snapshot as of now.
func (s *Set) StatusAt(now time.Time) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.writer
	st := Status{
		Mode: s.Mode(), Policy: s.policy, Decided: w.counts.decided,
		Applied: w.counts.applied, Full: w.counts.full, Invalid: w.counts.invalid, Expired: w.counts.expired,
		Rebuilds: w.counts.rebuilds, Refused: s.refused.Load(),
	}
	if w.table != nil {
		st.Bytes = w.table.bytes()
	}
	for i, g := range s.kinds {
		index := uint8(i)
		ks := KindStatus{
			Kind: g.kind, Closed: *w.held.of(holding{gate: index}), Shadow: *w.held.of(holding{gate: index, shadow: true}),
		}
		st.Kinds = append(st.Kinds, ks)
		st.Closed += ks.Closed
		st.Shadow += ks.Shadow
	}
	parts := s.pulse.partitions()
	for i := range parts {
		p := s.pulse.status(i, now)
		st.Partitions = append(st.Partitions, p)
		st.Age = max(st.Age, p.Age)
		switch p.Freshness {
		case Cold:
			st.Cold++
		case Fresh:
			st.Fresh++
		case Stale:
			st.Stale++
		}
	}
	return st
}

// status returns what is known of partition i.
func (p *pulse) status(i int, now time.Time) PartitionStatus {
	st := PartitionStatus{Partition: i, Freshness: p.freshness(int32(i), now)}
	part := &p.partitions()[i]
	if h := part.last.Load(); h != nil {
		st.Age = max(0, now.Sub(p.start)-time.Duration(part.heard.Load()-1))
		st.Epoch, st.Watermark, st.Lag = h.Epoch, h.Watermark, time.Duration(h.Lag)
	}
	return st
}

package gate

import (
	"time"
)

// Status is a snapshot of a Set, for metrics and for people who look into a server.
type Status struct {
	Mode   Mode
	Policy Policy

	Closed int // callers with an enforcing closure, which is in force, begins later, or has ended and is not swept yet
	Shadow int // callers that have shadow closures only, counted in the same way
	Shares int // shares that callers have, of one rule each; counted in the same way
	Kinds  []KindStatus
	Bytes  int // memory of the table and of shares

	Cold, Fresh, Stale int // partitions
	Partitions         []PartitionStatus
	Age                time.Duration // the longest time since a partition's newest heartbeat; partitions that are cold do not count
	Decided            time.Time     // when decisions were last applied; zero if never

	Applied  uint64 // decisions applied
	Full     uint64 // decisions dropped because Options.MaxClosed callers were closed: these callers stay open
	Invalid  uint64 // decisions and heartbeats dropped because they were invalid
	Ignored  uint64 // decisions whose share was ignored because 16 384 were held, or the caller had too many closures
	Expired  uint64 // callers swept
	Rebuilds uint64 // rebuilds of the table
	Refused  uint64 // callers of requests beyond MaxCallers: neither gated nor counted

	Refusals     []Refusals // by rule, in the order in which the rules' first decisions came
	StaleRefused Refusals   // because decisions are stale; it has no rule
}

// Refusals counts the requests that Check and CheckAt were asked about and that closures of one rule refuse. A request counts
// once, for the rule that its Verdict names. Closed and ClosedAddr of a Gate count nothing.
type Refusals struct {
	Rule    string // operators name rules; "(other rules)" is all rules after the first thousand
	Refused uint64 // requests that were refused
	Shadow  uint64 // requests that were admitted, because the rule or the Set was in mode shadow
}

// KindStatus is the part of a Status that is about one kind of caller.
type KindStatus struct {
	Kind           string
	Closed, Shadow int
}

// PartitionStatus says how current the decisions of one partition are.
type PartitionStatus struct {
	Partition int
	Freshness Freshness
	Age       time.Duration // since its newest heartbeat was received; 0 while cold
	Epoch     uint64
	Watermark int64         // offset of the next request to be counted, as of that heartbeat
	Lag       time.Duration // from a request until its decision is published, as the owner measured it
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
		Ignored: w.counts.noCell, Shares: s.cells.inUse(), Bytes: s.cells.bytes(),
		Rebuilds: w.counts.rebuilds, Refused: s.refused.Load(),
		Refusals: s.refusals.snapshot(), StaleRefused: s.refusals.stale.snapshot(),
	}
	if w.table != nil {
		st.Bytes += w.table.bytes()
	}
	for i, g := range s.kinds {
		index := uint8(i)
		ks := KindStatus{
			Kind: g.kind, Closed: *w.counted.of(tallyKey{gate: index}), Shadow: *w.counted.of(tallyKey{gate: index, as: withShadow}),
		}
		st.Kinds = append(st.Kinds, ks)
		st.Closed += ks.Closed
		st.Shadow += ks.Shadow
	}
	parts := s.liveness.partitions()
	for i := range parts {
		p := s.liveness.status(i, now)
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

// status returns the status of partition i.
func (p *liveness) status(i int, now time.Time) PartitionStatus {
	st := PartitionStatus{Partition: i, Freshness: p.freshness(int32(i), now)}
	part := &p.partitions()[i]
	if h := part.heartbeat.Load(); h != nil {
		st.Age = max(0, now.Sub(p.start)-time.Duration(part.heardAt.Load()-1))
		st.Epoch, st.Watermark, st.Lag = h.Epoch, h.Watermark, time.Duration(h.Lag)
	}
	return st
}

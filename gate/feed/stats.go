package feed

import "sync/atomic"

// Why requests are refused.
const (
	refusedKey = iota
	refusedQuery
	refusedFull
	refusals
)

// Why readers are cut off.
const (
	cutSlow = iota
	cutBehind
	cuts
)

// Stats is a snapshot of a Server.
type Stats struct {
	Readers int64             // now
	Lines   uint64            // sent, or about to be
	Refused map[string]uint64 // requests, by reason: "key", "parameter" or "full"
	Cut     map[string]uint64 // readers that were cut off, by reason: "slow" or "behind"
}

type counters struct {
	readers atomic.Int64
	lines   atomic.Uint64
	refused [refusals]atomic.Uint64
	cut     [cuts]atomic.Uint64
}

// Stats returns a snapshot.
func (s *Server) Stats() Stats {
	c := &s.stats
	return Stats{
		Readers: c.readers.Load(), Lines: c.lines.Load(),
		Refused: map[string]uint64{"key": c.refused[refusedKey].Load(), "parameter": c.refused[refusedQuery].Load(), "full": c.refused[refusedFull].Load()},
		Cut:     map[string]uint64{"slow": c.cut[cutSlow].Load(), "behind": c.cut[cutBehind].Load()},
	}
}

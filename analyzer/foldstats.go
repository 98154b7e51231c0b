package analyzer

import "maps"

// FoldStats is what a Fold has done since it was made. Weights and requests are sums, the rest counts.
type FoldStats struct {
	Frames    uint64 // folded
	Entries   uint64 // folded
	Requests  uint64 // folded: the entries' counts
	Duplicate uint64 // frames, or entries of sources, that were folded before
	TooOld    uint64 // frames that may have been folded before, and so were not
	Gaps      uint64 // sequence numbers that never came
	Lost      uint64 // records that the log no longer held when they were to be folded
	Late      uint64 // weight older than its window, dropped
	Uncounted uint64 // weight of callers for whom there was no room
	Expired   uint64 // rows dropped because nothing depended on them any more
	Closes    uint64
	Warnings  uint64
	Overshoot float64           // the largest of any close
	Rejected  map[string]uint64 // frames and entries refused, by reason
	Rows      int               // rules × callers held now
	Senders   int               // producers and sources remembered now
}

func (s FoldStats) clone(f *Fold) FoldStats {
	s.Rejected = maps.Clone(s.Rejected)
	s.Rows, s.Senders, s.Gaps = f.table.used, len(f.dedupe.rows), f.dedupe.gaps
	return s
}

package feed

import (
	"sync"
	"sync/atomic"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// shown has the lines that were shown because they could not be read: the first of each reason, of all sources together.
type shown struct {
	full [ingest.Reasons]atomic.Bool // no lock for the lines that come later: clients choose how many there are

	mu      sync.Mutex
	samples ingest.Samples // guarded by mu
}

// add returns which of the lines to show this one is, from 1, or 0 if it is not to be shown.
func (s *shown) add(r ingest.Reason, line []byte) int {
	if s.full[r].Load() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.samples.Add(r, line)
	s.full[r].Store(s.samples.Full(r))
	return n
}

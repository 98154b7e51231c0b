package solo

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Member has all partitions from Next until Close. New makes one, or Offsets.Join. Its methods are for one goroutine, but its generation
// is safe for concurrent use.
type Member struct {
	taken     chan struct{} // of its group: holds a value while a member has the partitions
	committed func() map[int]int64
	commit    func(offsets map[int]int64) error
	end       func() // of the generation; nil: there is none
}

// New returns the only member of a group whose offsets nobody reads again: what it commits is not kept.
func New(partitions int) *Member {
	return &Member{
		taken:     make(chan struct{}, 1),
		committed: func() map[int]int64 { return none(partitions) },
		commit:    func(map[int]int64) error { return nil },
	}
}

// none is what a group has committed at its beginning.
func none(partitions int) map[int]int64 {
	offsets := make(map[int]int64, partitions)
	for p := range partitions {
		offsets[p] = -1
	}
	return offsets
}

// Next returns a generation of all partitions. It waits until no other member of the group has them. A further call waits until ctx ends:
// the generation ends with Close only.
func (m *Member) Next(ctx context.Context) (*kafkaio.Generation, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case m.taken <- struct{}{}:
	}
	gen, end := kafkaio.NewGeneration(m.committed(), m.commit)
	m.end = end
	return gen, nil
}

// forever is longer than any process runs, and short enough for a time.Duration.
const forever = 100 * 365 * 24 * time.Hour

// OnProof calls f once, with a time that no process lives to see: it is proved now that no other process will have the partitions while
// this one runs, even if it is stopped for an hour and goes on.
func (*Member) OnProof(f func(sent time.Time)) { f(time.Now().Add(forever)) }

// Close ends the generation, and leaves the partitions to the next member of the group. The error is nil.
func (m *Member) Close() error {
	if m.end != nil {
		m.end()
		m.end = nil
		<-m.taken
	}
	return nil
}

package snapshot

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas/pb"
)

// Refused is the list of refused messages that state[p] holds. What an owner wrote after another had claimed the partition
// does not count: that owner has published nothing about it.
type Refused struct {
	List  fold.Refusals
	Epoch uint64 // the highest of any record
	Since int64  // the list is complete from this offset of requests[p] on; UnknownSince: no record says so
}

// NewRefused returns an empty list, which no record says to be complete.
func NewRefused() *Refused { return &Refused{Since: UnknownSince} }

// UnknownSince is what an owner that takes a partition over writes before it knows from where on its list is complete.
const UnknownSince = math.MaxInt64

// take adds what a record says.
func (l *Refused) take(rec *pb.StateRecord) {
	epoch, ok := epochOf(rec)
	if !ok || epoch < l.Epoch {
		return
	}
	l.Epoch = epoch
	if m := rec.GetRefused(); m != nil {
		l.completeFrom(m.GetSince())
		for _, offset := range m.GetOffsets() {
			l.List.Add(offset, epoch)
		}
	}
	if row := rec.GetRow(); fold.KindOf(row.GetKey()) == fold.RefusalRow && l.List.Restore(row.GetKey(), row.GetValue(), 0) == nil && len(row.GetKey()) == 1 {
		since, _, _ := l.List.Judged()
		l.completeFrom(since)
	}
}

// completeFrom takes the newest record's word on where the list begins to be complete.
func (l *Refused) completeFrom(since int64) {
	if since != UnknownSince {
		l.Since = since
	}
}

// Doubt is the second result of fold.Refusals.Judged.
func (l *Refused) Doubt() int64 {
	_, doubt, _ := l.List.Judged()
	return doubt
}

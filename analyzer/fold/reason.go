package fold

import (
	"errors"

	"github.com/509da70d/floodgate/schemas"
)

// Reasons for which the fold refuses a frame or an entry, beside those of schemas.Reason. Each is a label of a metric and a
// word in the topic of rejects.
const (
	ReasonKey        = "partition_key" // the producer was given another partition key
	ReasonPartitions = "partitions"    // the producer sees another number of partitions
	ReasonMisplaced  = "misplaced"     // the entry's caller belongs to another partition
	ReasonSequence   = "sequence"      // a sequence number or source offset that no producer sends
	ReasonSenders    = "producers"     // too many producers at once
)

// rejection is why the fold refused a frame that could be read.
type rejection struct{ reason, text string }

func (r rejection) Error() string { return r.text }

// Reason returns the reason under which an error of Fold.Frame was counted.
func Reason(err error) string {
	if r, ok := errors.AsType[rejection](err); ok {
		return r.reason
	}
	return schemas.Reason(err)
}

// reject counts a refused frame and returns the error that says so.
func (f *Fold) reject(reason, text string) error {
	f.stats.Rejected[reason]++
	return rejection{reason, text}
}

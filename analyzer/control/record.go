package control

import (
	"errors"
	"log/slog"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Topic is the control topic, and the partition of requests for which it is read. Make one with NewTopic.
type Topic struct {
	name       string
	requests   string // the topic of requests
	key        schemas.PartitionKey
	partition  int
	partitions int
}

// NewTopic returns the control topic of the given name, for a partition of a topic of requests. key and partitions are as in fold.Options,
// and have the same defaults.
func NewTopic(name, requests string, key schemas.PartitionKey, partition, partitions int) Topic {
	if key == (schemas.PartitionKey{}) {
		key = schemas.DefaultPartitionKey()
	}
	return Topic{name, requests, key, partition, max(1, partitions)}
}

// Concerns reports whether a record is about the partition.
func (t *Topic) Concerns(c *schemas.Control) bool {
	switch {
	case c.Action == schemas.ControlTake, c.Action == schemas.ControlPlace:
		return c.Topic == t.requests && int(c.Partition) == t.partition
	case c.Global():
		return true
	}
	return schemas.Partition(t.key.Hash(c.Caller.Kind, c.Caller.ID), t.partitions) == t.partition
}

// Record is a control record, and its offset in the topic.
type Record struct {
	Offset  int64
	Control schemas.Control
}

// Batch holds the records about the partition in a stretch of the topic.
type Batch struct {
	Records []Record
	First   int64 // the stretch's first offset
	Next    int64 // the offset behind the stretch
	Again   bool  // the topic was made anew, or has lost its end, and this stretch is its first
	Skipped Skipped
}

// Skipped counts what could not be applied, by reason.
type Skipped struct {
	Later      uint64 // records of a later version of the format
	Unreadable uint64 // records that no owner or person writes, and batches that cannot be read
	Lost       uint64 // records that the topic no longer held
}

// Add adds the counts of o.
func (s *Skipped) Add(o Skipped) {
	s.Later += o.Later
	s.Unreadable += o.Unreadable
	s.Lost += o.Lost
}

// Sum returns the sum over all reasons.
func (s Skipped) Sum() uint64 { return s.Later + s.Unreadable + s.Lost }

// Log logs what was skipped before an offset of the topic, if anything was.
func (s Skipped) Log(logger *slog.Logger, before int64) {
	if s.Sum() > 0 {
		logger.Error("skipped control records", "before", before, "later_version", s.Later, "unreadable", s.Unreadable, "lost", s.Lost)
	}
}

// read decodes a fetched batch, and keeps the records about the partition. It drops the texts of noted rules, which Rules reads again.
func (t *Topic) read(b *kafkaio.Batch) Batch {
	out := Batch{Next: b.Next}
	out.Skipped = Decode(b, func(r *Record) {
		if t.Concerns(&r.Control) {
			r.Control.Text = nil
			out.Records = append(out.Records, *r)
		}
	})
	return out
}

// Decode calls each for those records of a batch that can be read, in their order, and returns what was skipped. A record is valid until
// each returns. A take or place whose epoch schemas.CheckEpoch refuses counts as unreadable: otherwise no later owner could have a higher
// epoch. The message's own time decides that, and not a clock, so that all readers agree.
func Decode(b *kafkaio.Batch, each func(*Record)) (skipped Skipped) {
	for _, s := range b.Skipped {
		n := uint64(max(1, s.To-s.From+1)) // ≥ 1
		switch s.Reason {
		case kafkaio.SkipControl, kafkaio.SkipGap: // hold no records
		case kafkaio.SkipLost:
			skipped.Lost += n
		default:
			skipped.Unreadable += n
		}
	}
	for i := range b.Records {
		c, err := pb.DecodeControl(b.Records[i].Value)
		if err == nil && c.Epoch > 0 {
			err = schemas.CheckEpoch(c.Epoch, b.Records[i].Time, b.Records[i].Time)
		}
		switch {
		case errors.Is(err, pb.ErrUnknown):
			skipped.Later++
		case err != nil:
			skipped.Unreadable++
		default:
			each(&Record{b.Records[i].Offset, c})
		}
	}
	return skipped
}

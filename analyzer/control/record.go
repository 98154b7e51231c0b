package control

import (
	"encoding/binary"
	"errors"
	"hash/fnv"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Topic is the topic, and for which partition of requests it is read. Make one with NewTopic.
type Topic struct {
	name       string
	key        schemas.PartitionKey
	partition  int
	partitions int
}

// NewTopic returns the topic of a name. Key, partition and partitions are as in fold.Options, which has the same defaults.
func NewTopic(name string, key schemas.PartitionKey, partition, partitions int) Topic {
	if key == (schemas.PartitionKey{}) {
		key = schemas.DefaultPartitionKey()
	}
	return Topic{name, key, partition, max(1, partitions)}
}

// Concerns reports whether a record can change what is counted in the partition.
func (t *Topic) Concerns(c *schemas.Control) bool {
	switch {
	case c.Action == schemas.ControlRules: // a note
		return false
	case c.Global():
		return true
	}
	return schemas.Partition(t.key.Hash(c.Caller.Kind, c.Caller.ID), t.partitions) == t.partition
}

// Record is a record of the topic.
type Record struct {
	Offset  int64
	Control schemas.Control
}

// Batch is what a stretch of the topic holds about the partition.
type Batch struct {
	Records []Record
	First   int64 // the stretch's first offset
	Next    int64 // the offset behind the stretch
	Again   bool  // the topic was made anew, or lost its end: this stretch is its first
	Skipped Skipped

	Tail schemas.ControlTail // the stretch's last record; the zero value if it has none
}

// Chain returns schemas.ControlPlace.Chain after records that were applied at an offset of requests[p], where chain is what it was
// before them. How they are cut into places makes no difference.
func Chain(chain uint64, from int64, records []Record) uint64 {
	for i := range records {
		h := fnv.New64a()
		var b [24]byte
		binary.LittleEndian.PutUint64(b[:], chain)
		binary.LittleEndian.PutUint64(b[8:], uint64(from))
		binary.LittleEndian.PutUint64(b[16:], uint64(records[i].Offset))
		_, _ = h.Write(b[:])                     // never fails
		_, _ = h.Write(records[i].Control.ID[:]) // likewise
		chain = h.Sum64()
	}
	return chain
}

// Skipped counts what could not be applied, for each reason.
type Skipped struct {
	Later      uint64 // records of a later version
	Unreadable uint64 // records that no version has written, and batches that cannot be read
	Lost       uint64 // records that the topic no longer held
}

// Add adds up.
func (s *Skipped) Add(o Skipped) {
	s.Later += o.Later
	s.Unreadable += o.Unreadable
	s.Lost += o.Lost
}

// Sum returns how many there are of all reasons.
func (s Skipped) Sum() uint64 { return s.Later + s.Unreadable + s.Lost }

// read decodes what was fetched, and keeps the records that concern the partition.
func (t *Topic) read(b *kafkaio.Batch) Batch {
	out := Batch{Next: b.Next, Tail: TailOf(b)}
	out.Skipped = Decode(b, func(r *Record) {
		if t.Concerns(&r.Control) {
			out.Records = append(out.Records, *r)
		}
	})
	return out
}

// Decode calls each for the records of a batch that can be read, in their order, and returns what cannot. The record is good until
// each returns.
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

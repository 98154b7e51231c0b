package kafkaio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// Tail identifies a log by a record that was read of it: nearly always the last one. The zero value is none.
type Tail struct {
	Offset int64
	CRC    uint32 // CRC-32C of time, key and value; 0 if there is no record
}

// Tail returns what identifies a record.
func (r *Record) Tail() Tail {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(r.Time))
	crc := crc32.Update(crc32.Checksum(at[:], castagnoli()), castagnoli(), r.Key)
	return Tail{r.Offset, max(1, crc32.Update(crc, castagnoli(), r.Value))}
}

// verifyBytes is how much is fetched to verify one record. Brokers return the whole batch that holds the record, however long it is.
const verifyBytes = 4 << 10

// Verify checks that the partition still has the record that tail names. A tail without a record passes, and so does one whose record was
// deleted from the partition's beginning, or is corrupt now. Verify tries again as Next does, and the Cursor stays where it is. The error is
// ErrTruncated if the record is missing or another one is in its place; others are those of Next.
func (c *Cursor) Verify(ctx context.Context, tail Tail) error {
	a := newAttempts(c.retry, c.config.Logger, "verify")
	for {
		err := c.compare(ctx, tail)
		if err == nil {
			a.succeeded()
			return nil
		}
		if err := a.again(ctx, err); err != nil {
			return err
		}
	}
}

// compare makes one attempt of Verify.
func (c *Cursor) compare(ctx context.Context, tail Tail) error {
	if tail.CRC == 0 {
		return nil
	}
	topic, partition := c.config.Topic, c.config.Partition
	b, err := c.log.Fetch(ctx, FetchRequest{Topic: topic, Partition: partition, Offset: tail.Offset, MaxBytes: verifyBytes})
	outside, isOutside := errors.AsType[*RangeError](err)
	switch {
	case isOutside && tail.Offset < outside.Start, errors.Is(err, ErrCorrupt):
		return nil
	case isOutside:
		return fmt.Errorf("%w: %w", ErrTruncated, err)
	case err != nil:
		return err
	}
	for i := range b.Records {
		if b.Records[i].Tail() == tail {
			return nil
		}
	}
	return fmt.Errorf("%w: %s, partition %d: another record is at offset %d", ErrTruncated, topic, partition, tail.Offset)
}

// witness knows the last record that a Cursor has read, and when to doubt that the partition still has it. A log can only lose records
// and grow again beyond a Cursor's offset where one of these happens:
//   - Another leader was elected. Brokers write into each batch the epoch of the leader that appended it, which no two leaders share. So
//     the first new record has another epoch than the last one read.
//   - The topic was deleted and made anew, perhaps with the same epoch. A fetch that waits for records then fails, and so does one while
//     the topic is missing. A Cursor that did neither has paused for as long as that takes: between two fetches, or while an answer
//     waited to be read. Such an answer comes later than any that a broker has held back and the network has delayed.
//
// The zero value knows no record.
type witness struct {
	tail     Tail
	epoch    int32 // of the leader that appended that record
	doubt    bool
	drops    uint64    // Batch.drops of the last batch
	answered time.Time // when the last batch came; zero: there was none
	due      time.Time // an answer that comes later may have waited to be read
}

const (
	// maxPause is the longest time between two fetches in which no topic is deleted, made anew, and filled.
	maxPause = 100 * time.Millisecond
	// maxDelay is how long a question and its answer are under way, even around the world. An answer that waited to be read for less, and
	// for less than the broker could have held it back, is taken for one that just came.
	maxDelay = 500 * time.Millisecond
)

func newWitness(tail Tail) witness { return witness{tail: tail, doubt: true} }

// asks notes that a fetch begins, whose answer a broker may hold back for wait.
func (w *witness) asks(wait time.Duration) {
	now := time.Now()
	w.doubt = w.doubt || now.Sub(w.answered) > maxPause
	w.due = now.Add(wait + maxDelay)
}

// doubts reports whether to verify the tail before a batch is used.
func (w *witness) doubts(b *Batch) bool {
	return w.doubt || time.Now().After(w.due) || b.drops != w.drops || len(b.Records) > 0 && b.FirstEpoch != w.epoch
}

// saw notes a batch that belongs to the log. The next one is in doubt if the last answer came late.
func (w *witness) saw(b *Batch) {
	now := time.Now()
	w.doubt, w.drops, w.answered = now.After(w.due), b.drops, now
	if n := len(b.Records); n > 0 {
		w.tail, w.epoch = b.Records[n-1].Tail(), b.LastEpoch
	}
}

// verify checks that a fetched batch continues the log that was read before.
func (c *Cursor) verify(ctx context.Context, b *Batch) error {
	w := &c.witness
	if w.doubts(b) {
		w.asks(0)
		if err := c.compare(ctx, w.tail); err != nil {
			if errors.Is(err, ErrTruncated) {
				*w = witness{}
			}
			return err
		}
	}
	w.saw(b)
	return nil
}

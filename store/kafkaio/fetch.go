package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// DefaultMaxBytes is how much a Fetch asks for unless told otherwise.
const DefaultMaxBytes = 1 << 20

// FetchRequest says what to fetch. The broker answers once MinBytes are there or MaxWait is over.
type FetchRequest struct {
	Topic     string
	Partition int
	Offset    int64         // the first one wanted, ≥ 0
	MaxWait   time.Duration // 0 answers at once. Whole milliseconds; a fraction waits for one more
	MinBytes  int           // 0 is 1
	MaxBytes  int           // 0 is DefaultMaxBytes. A single batch that is longer comes all the same
}

// Fetch returns records from r.Offset on, and waits for some if there are none; an empty Batch is no error. Checksums are
// verified and the memory it takes is capped (see Config). It is safe to repeat, so short failures of the network or of a
// leader are retried within the call. Errors: ErrOffsetOutOfRange (a *RangeError), ErrCorrupt (a *CorruptError),
// ErrNoTopic, ErrTooLarge, and those of the context and the network, all within a *RequestError; see Temporary.
func (c *Client) Fetch(ctx context.Context, r FetchRequest) (Batch, error) {
	if r.Offset < 0 {
		return Batch{}, c.failed("fetch", r.Topic, r.Partition, Unsent, &RangeError{Offset: r.Offset, Start: 0, End: math.MaxInt64})
	}
	ctx, end, err := c.begin(ctx, max(r.MaxWait, 0)+c.config.Timeout)
	if err != nil {
		return Batch{}, err
	}
	defer end()
	var b Batch
	err = c.retry(ctx, fetchAttempts, func() error {
		var err error
		b, err = c.fetchSure(ctx, r)
		return err
	})
	if err != nil {
		return Batch{}, c.failed("fetch", r.Topic, r.Partition, Unknown, err)
	}
	return b, nil
}

// fetchAttempts is how often one Fetch tries; the caller paces what goes beyond.
const fetchAttempts = 3

// fetchSure is fetchOnce, but for answers that a flipped bit could explain as well: those are asked for again. A batch's
// base offset and format are not under its checksum. They are right if the batch begins where the last one ended, in the
// format of today, as nearly all do.
func (c *Client) fetchSure(ctx context.Context, r FetchRequest) (Batch, error) {
	b, doubts, err := c.fetchOnce(ctx, r)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return Batch{}, c.outOfRange(ctx, r, err)
	}
	if err != nil || len(doubts) == 0 {
		return b, err
	}
	again, twice, err := c.fetchOnce(ctx, r)
	if err != nil {
		return Batch{}, err
	}
	if n := min(len(doubts), len(twice)); slices.Equal(doubts[:n], twice[:n]) {
		return again, nil
	}
	return Batch{}, fmt.Errorf("%w: two fetches of offset %d disagree: got batches at %d, then %d",
		errNotAsked, r.Offset, doubts, twice)
}

// outOfRange asks for the range before it believes that an offset is out of it: a new leader may lag for a moment.
func (c *Client) outOfRange(ctx context.Context, r FetchRequest, cause error) error {
	start, end, err := c.rangeOnce(ctx, r.Topic, r.Partition)
	if err != nil {
		return err
	}
	if start <= r.Offset && r.Offset <= end {
		return fmt.Errorf("%w: %w, but the range is %d to %d", kafka.LeaderNotAvailable, cause, start, end)
	}
	return &RangeError{Offset: r.Offset, Start: start, End: end}
}

// fetchOnce asks once, or more often with more room where not even one batch fits.
func (c *Client) fetchOnce(ctx context.Context, r FetchRequest) (Batch, []int64, error) {
	maxBytes := min(r.MaxBytes, MaxResponse/2)
	if maxBytes <= 0 {
		maxBytes = DefaultMaxBytes
	}
	for {
		body, version, _, err := c.exchange(ctx, func() protocol.Message { return r.message(maxBytes) }, 4)
		if err != nil {
			return Batch{}, nil, err
		}
		b, set, err := parseFetch(body, version, r)
		if err != nil {
			return Batch{}, nil, err
		}
		doubts, err := c.unpacker.unpack(&b, set)
		if !errors.Is(err, errPartial) {
			return b, doubts, err
		}
		if maxBytes >= MaxResponse/2 {
			return Batch{}, nil, fmt.Errorf("%w: batch at offset %d", ErrTooLarge, r.Offset)
		}
		maxBytes = min(4*maxBytes, MaxResponse/2)
	}
}

// message is the request on the wire. Version 4 is the first that returns record batches as they are stored.
func (r *FetchRequest) message(maxBytes int) *fetch.Request {
	wait := min((max(r.MaxWait, 0)+time.Millisecond-1)/time.Millisecond, math.MaxInt32)
	return &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(wait), MinBytes: int32(max(r.MinBytes, 1)), MaxBytes: int32(maxBytes),
		SessionID: 0, SessionEpoch: -1, // no session
		Topics: []fetch.RequestTopic{{
			Topic: r.Topic,
			Partitions: []fetch.RequestPartition{{
				Partition: int32(r.Partition), CurrentLeaderEpoch: -1, FetchOffset: r.Offset, LogStartOffset: -1,
				PartitionMaxBytes: int32(maxBytes),
			}},
		}},
	}
}

// parseFetch returns a batch that is ready to be filled from the returned record set, which aliases body.
func parseFetch(body []byte, version int16, r FetchRequest) (Batch, []byte, error) {
	w := wire{b: body}
	w.int32() // throttle time: the broker delays the answer itself
	if version >= 7 {
		if err := brokerError(w.int16()); err != nil {
			return Batch{}, nil, err
		}
		w.int32() // session
	}
	w.one("topic")
	topic := w.string()
	w.one("partition")
	partition := w.int32()
	code := w.int16()
	b := Batch{Next: r.Offset, HighWater: w.int64(), LogStart: -1}
	w.int64() // last stable offset
	if version >= 5 {
		b.LogStart = w.int64()
	}
	for range w.count(16) {
		w.take(16) // aborted transactions
	}
	if version >= 11 {
		w.int32() // preferred replica: no rack was given
	}
	set := w.bytes()
	switch {
	case w.err != nil:
		return Batch{}, nil, fmt.Errorf("read fetch answer: %w", w.err)
	case topic != r.Topic || int(partition) != r.Partition:
		return Batch{}, nil, fmt.Errorf("%w: got %s/%d", errNotAsked, topic, partition)
	}
	return b, set, brokerError(code)
}

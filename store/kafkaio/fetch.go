package kafkaio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// DefaultMaxBytes is how many bytes a Fetch asks for if FetchRequest.MaxBytes is 0.
const DefaultMaxBytes = 1 << 20

// FetchRequest says what to fetch. Fetch returns when there are records, or after MaxWait.
type FetchRequest struct {
	Topic     string
	Partition int
	Offset    int64         // of the first record wanted, ≥ 0
	MaxWait   time.Duration // 0 answers at once. Half of it may suffice, and some milliseconds may be added
	MaxBytes  int           // 0 is DefaultMaxBytes. A single batch that is longer comes all the same
}

// Fetch returns records from r.Offset on, and waits for some if there are none; an empty Batch is no error. Checksums are
// verified and the memory it takes is capped (see Config). A batch over 64 MiB is passed over when two fetches agree on
// its header: exactly its offsets are in Batch.Skipped. A batch that unpacks to a large size is returned in pieces: the
// Fetch that continues at Batch.Next neither asks the broker nor unpacks the earlier pieces again. A Fetch may be repeated,
// so short failures of the network or of a leader are retried within the call. Errors: ErrOffsetOutOfRange (a *RangeError),
// ErrCorrupt (a *CorruptError), ErrNoTopic, and those of the context and the network, all within a *RequestError; see
// Temporary.
func (c *Client) Fetch(ctx context.Context, r FetchRequest) (b Batch, err error) {
	defer c.observe(OpFetch)(&err)
	if r.Offset < 0 {
		return Batch{}, c.failed("fetch", r.Topic, r.Partition, Unsent, &RangeError{Offset: r.Offset, Start: 0, End: math.MaxInt64})
	}
	ctx, end, err := c.begin(ctx, max(r.MaxWait, 0)+c.config.Timeout)
	if err != nil {
		return Batch{}, err
	}
	defer end()
	defer func() { b.drops += c.currentEra() }()
	if b, ok := c.unfinished.resume(r, c.unpacker.piece(), time.Now()); ok {
		return b, nil
	}
	err = c.retry(ctx, fetchAttempts, func() error {
		var err error
		b, err = c.fetchSure(ctx, r)
		return err
	})
	if err != nil {
		return Batch{}, c.failed("fetch", r.Topic, r.Partition, Unknown, err)
	}
	c.unfinished.keep(r, &b, time.Now())
	return b, nil
}

// fetchAttempts is how often one Fetch tries; a caller that tries again makes pauses of its own.
const fetchAttempts = 3

// fetchSure is fetchOnce, but it fetches a second time if a flipped bit could explain the answer. A batch's checksum does
// not cover its base offset and its format. They are right if the batch begins where the one before ended, in the current
// format, as nearly all batches do.
func (c *Client) fetchSure(ctx context.Context, r FetchRequest) (Batch, error) {
	b, d, err := c.fetchOnce(ctx, r, false)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return Batch{}, c.outOfRange(ctx, r, err)
	}
	if err != nil || d.none() {
		return b, err
	}
	again, twice, err := c.fetchOnce(ctx, r, true)
	if err != nil {
		return Batch{}, err
	}
	if d.agrees(twice) {
		return again, nil
	}
	return Batch{}, fmt.Errorf("%w: two fetches of offset %d disagree: got %v, then %v", errWrongAnswer, r.Offset, d, twice)
}

// doubts are the parts of an answer that no checksum proves.
type doubts struct {
	bases []int64   // base offsets of batches that do not begin where the last one ended, or are of an old format
	long  longBatch // the batch that was passed over unread
}

func (d doubts) none() bool { return len(d.bases) == 0 && d.long == longBatch{} }

// agrees reports whether a second answer confirms the doubts of the first. It may contain more or fewer batches.
func (d doubts) agrees(twice doubts) bool {
	n := min(len(d.bases), len(twice.bases))
	return d.long == twice.long && slices.Equal(d.bases[:n], twice.bases[:n])
}

// String says where the doubtful batches begin, and what the header of the unread one says.
func (d doubts) String() string {
	if d.long == (longBatch{}) {
		return fmt.Sprintf("batches at %d", d.bases)
	}
	return d.long.String()
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

// fetchOnce makes one request, together with other calls unless alone is set. If not even one batch fits into its answer, it makes more,
// each alone and with more room.
func (c *Client) fetchOnce(ctx context.Context, r FetchRequest, alone bool) (Batch, doubts, error) {
	maxBytes := min(r.MaxBytes, maxBatch/2)
	if maxBytes <= 0 {
		maxBytes = DefaultMaxBytes
	}
	l, err := c.laneTo(ctx, r.message(maxBytes))
	if err != nil {
		return Batch{}, doubts{}, err
	}
	for ; ; alone = true {
		var a fetched
		if !alone {
			a, err = l.fetches.ask(ctx, r, maxBytes)
		}
		if alone || a.alone {
			a, err = c.fetchAlone(ctx, l, r, maxBytes)
		}
		b, set := a.batch, a.set
		if err != nil {
			return Batch{}, doubts{}, err
		}
		bases, err := c.unpacker.unpack(&b, set)
		partial := errors.Is(err, errPartial)
		if errors.Is(err, errLong) || partial && maxBytes >= maxBatch {
			long, err := b.passOver(set)
			return b, doubts{long: long}, err
		}
		if !partial {
			return b, doubts{bases: bases}, err
		}
		maxBytes = min(4*maxBytes, maxBatch)
	}
}

// fetchAlone makes one request, and reads the beginning of an answer that is too long.
func (c *Client) fetchAlone(ctx context.Context, l *lane, r FetchRequest, maxBytes int) (a fetched, err error) {
	s, err := l.enter(ctx)
	if err != nil {
		return fetched{}, err
	}
	defer l.leave(s)
	x, err := c.exchangeAt(ctx, s, func() protocol.Message { return r.message(maxBytes) }, 4, r.firstBatch)
	if err == nil {
		a.batch, a.set, err = parseFetch(x.body, x.version, r, x.cut)
	}
	return a, err
}

// firstBatch says how much to keep of an answer that is too long: its first batch, or only the header of a first batch that
// is too long itself.
func (r *FetchRequest) firstBatch(head []byte, version int16) int64 {
	_, set, err := parseFetch(head, version, *r, true)
	if err != nil || len(set) < batchPrefix {
		return peekBytes
	}
	size := batchPrefix + int64(int32(binary.BigEndian.Uint32(set[batchLengthAt:])))
	if size > maxBatch {
		return peekBytes
	}
	return int64(len(head)-len(set)) + size
}

// message is the request alone.
func (r *FetchRequest) message(maxBytes int) *fetch.Request {
	return fetchMessage(r.MaxWait, maxBytes, []fetch.RequestTopic{{
		Topic: r.Topic, Partitions: []fetch.RequestPartition{r.onWire(maxBytes)},
	}})
}

// onWire is the part of a request that is about the partition.
func (r *FetchRequest) onWire(maxBytes int) fetch.RequestPartition {
	return fetch.RequestPartition{
		Partition: int32(r.Partition), CurrentLeaderEpoch: -1, FetchOffset: r.Offset, LogStartOffset: -1,
		PartitionMaxBytes: int32(maxBytes),
	}
}

// fetchMessage is a request on the wire. Version 4 is the first that returns record batches as they are stored.
func fetchMessage(wait time.Duration, maxBytes int, topics []fetch.RequestTopic) *fetch.Request {
	wait = min((max(wait, 0)+time.Millisecond-1)/time.Millisecond, math.MaxInt32)
	return &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(wait), MinBytes: 1, MaxBytes: int32(maxBytes),
		SessionID: 0, SessionEpoch: -1, // no session
		Topics: topics,
	}
}

// parseFetch returns a batch that is ready to be filled from the returned record set, which aliases body. If the answer is
// cut, it returns the part of the set that has come.
func parseFetch(body []byte, version int16, r FetchRequest, cut bool) (Batch, []byte, error) {
	w := wire{b: body}
	if err := fetchHead(&w, version); err != nil {
		return Batch{}, nil, err
	}
	w.one("topic")
	topic := w.string()
	w.one("partition")
	partition, a := fetchPartition(&w, version, cut)
	switch {
	case w.err != nil:
		return Batch{}, nil, fmt.Errorf("read fetch answer: %w", w.err)
	case topic != r.Topic || partition != r.Partition:
		return Batch{}, nil, fmt.Errorf("%w: got %s/%d", errWrongAnswer, topic, partition)
	}
	a.batch.Next = r.Offset
	return a.batch, a.set, a.err
}

// fetchHead reads what stands before the topics in an answer. It returns the broker's error about the whole request.
func fetchHead(w *wire, version int16) error {
	w.int32() // throttle time: the broker delays the answer itself
	if version < 7 {
		return nil
	}
	code := w.int16()
	w.int32() // session
	return brokerError(code)
}

// fetchPartition reads what an answer says about one partition, without Batch.Next. The record set aliases the answer.
func fetchPartition(w *wire, version int16, cut bool) (partition int, a fetched) {
	partition = int(w.int32())
	code := w.int16()
	a.batch = Batch{HighWater: w.int64(), LogStart: -1}
	w.int64() // last stable offset
	if version >= 5 {
		a.batch.LogStart = w.int64()
	}
	for range w.count(16) {
		w.take(16) // aborted transactions
	}
	if version >= 11 {
		w.int32() // preferred replica: no rack was given
	}
	a.set = w.set(cut)
	a.err = brokerError(code)
	return partition, a
}

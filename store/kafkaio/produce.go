package kafkaio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// ErrNoMessages says that Produce was called without messages.
var ErrNoMessages = errors.New("no messages")

// Produce appends msgs to a partition as one record batch, all or none, and returns the offset of the first. It waits
// until all replicas in sync have them, for Config.Timeout or until ctx ends, and reads msgs only until it returns. A
// produce that failed may still be in the log: see OutcomeOf. Produce repeats a request only if it certainly was not sent.
// The batch must fit the topic's max.message.bytes (1 MiB by default), else the error is ErrTooLarge.
func (c *Client) Produce(ctx context.Context, topic string, partition int, msgs ...Message) (base int64, err error) {
	defer c.observe(OpProduce)(&err)
	if len(msgs) == 0 {
		return -1, c.failed("produce", topic, partition, Unsent, ErrNoMessages)
	}
	ctx, end, err := c.begin(ctx, c.config.Timeout)
	if err != nil {
		return -1, err
	}
	defer end()
	set := appendBatch(make([]byte, 4, 4+batchSize(msgs)), msgs)
	binary.BigEndian.PutUint32(set, uint32(len(set)-4))
	base, outcome, err := c.produceSet(ctx, topic, partition, set)
	if err != nil {
		return -1, c.failed("produce", topic, partition, outcome, err)
	}
	return base, nil
}

// produceSet sends a record set with its length before it. It sends it again if it certainly is not in the log: the
// metadata was old, the topic was just made, or the connection was stale.
func (c *Client) produceSet(ctx context.Context, topic string, partition int, set []byte) (base int64, o Outcome, err error) {
	for i := 0; ; i++ {
		if err := ctx.Err(); err != nil {
			return -1, Unsent, err // the write could begin before the end of ctx is noticed
		}
		era := c.currentEra()
		// Version 3 is the first with record batches.
		body, version, sent, err := c.exchange(ctx, func() protocol.Message { return produceMessage(ctx, topic, partition, set) }, 3)
		base, o = -1, Unknown
		switch {
		case err == nil:
			base, o, err = parseProduce(body, version, topic, partition)
		case !sent:
			o = Unsent
		}
		if err == nil || ctx.Err() != nil {
			return base, o, err
		}
		again := Temporary(err) || errors.Is(err, ErrNoTopic)
		if again {
			c.refresh(era) // also for the next call
		}
		if !again || o == Unknown || i+1 >= fetchAttempts || Sleep(ctx, retryPause<<i) != nil {
			return -1, o, err
		}
	}
}

func produceMessage(ctx context.Context, topic string, partition int, set []byte) *rawproduce.Request {
	timeout := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), time.Millisecond)
	}
	return &rawproduce.Request{
		Acks: -1, Timeout: int32(timeout / time.Millisecond),
		Topics: []rawproduce.RequestTopic{{
			Topic: topic,
			Partitions: []rawproduce.RequestPartition{{
				Partition: int32(partition),
				RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(set)},
			}},
		}},
	}
}

// parseProduce reads an answer to one partition's produce.
func parseProduce(body []byte, version int16, topic string, partition int) (base int64, o Outcome, err error) {
	w := wire{b: body}
	w.one("topic")
	gotTopic := w.string()
	w.one("partition")
	gotPartition, code := w.int32(), w.int16()
	base = w.int64()
	w.int64() // append time
	if version >= 5 {
		w.int64() // log start
	}
	detail := ""
	if version >= 8 {
		for range w.count(6) {
			w.int32() // index of the record
			detail = w.string()
		}
		if s := w.string(); s != "" {
			detail = s
		}
	}
	switch {
	case w.err != nil:
		return -1, Unknown, fmt.Errorf("read produce answer: %w", w.err)
	case gotTopic != topic || int(gotPartition) != partition:
		return -1, Unknown, fmt.Errorf("%w: got %s/%d", errWrongAnswer, gotTopic, gotPartition)
	}
	o, err = produceOutcome(code, base), brokerError(code)
	if err != nil && detail != "" {
		err = fmt.Errorf("%w: the broker answered %q", err, detail)
	}
	if err == nil && base < 0 {
		return -1, Unknown, fmt.Errorf("%w: got base offset %d", errWrongAnswer, base)
	}
	return base, o, err
}

// batchSize is an upper bound of the bytes that appendBatch appends.
func batchSize(msgs []Message) int {
	n := batchHeader
	for i := range msgs {
		n += len(msgs[i].Key) + len(msgs[i].Value) + 32
	}
	return n
}

package kafkaio

import (
	"context"
	"encoding/binary"
	"errors"

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
		a := c.produceOnce(ctx, topic, partition, set)
		if a.err == nil || ctx.Err() != nil {
			return a.base, a.outcome, a.err
		}
		again := Temporary(a.err) || errors.Is(a.err, ErrNoTopic)
		if again {
			c.refresh(era) // also for the next call
		}
		if !again || a.outcome == Unknown || i+1 >= fetchAttempts || Sleep(ctx, retryPause<<i) != nil {
			return -1, a.outcome, a.err
		}
	}
}

func (c *Client) produceOnce(ctx context.Context, topic string, partition int, set []byte) produceAnswer {
	l, err := c.laneTo(ctx, &rawproduce.Request{Topics: []rawproduce.RequestTopic{{
		Topic: topic, Partitions: []rawproduce.RequestPartition{{Partition: int32(partition)}},
	}}})
	if err != nil {
		return produceAnswer{-1, Unsent, err}
	}
	return l.produces.ask(ctx, topic, partition, set)
}

// batchSize is an upper bound of the bytes that appendBatch appends.
func batchSize(msgs []Message) int {
	n := batchHeader
	for i := range msgs {
		n += len(msgs[i].Key) + len(msgs[i].Value) + 32
	}
	return n
}

package kafkaio

import (
	"context"
	"errors"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
)

// Range returns the first offset that a partition holds and the one that its next message will get; they are equal in an
// empty partition. Short failures are retried. Errors are as those of Fetch.
func (c *Client) Range(ctx context.Context, topic string, partition int) (start, end int64, err error) {
	defer c.observe(OpRange)(&err)
	ctx, done, err := c.begin(ctx, c.config.Timeout)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	err = c.retry(ctx, fetchAttempts, func() error {
		var err error
		start, end, err = c.rangeOnce(ctx, topic, partition)
		return err
	})
	if err != nil {
		return 0, 0, c.failed("range", topic, partition, Unknown, err)
	}
	return start, end, nil
}

func (c *Client) rangeOnce(ctx context.Context, topic string, partition int) (start, end int64, err error) {
	l, err := c.laneTo(ctx, (&FetchRequest{Topic: topic, Partition: partition}).message(0)) // a request for offsets is not routed
	if err != nil {
		return 0, 0, err
	}
	era := c.currentEra()
	s, err := l.enter(ctx)
	if err != nil {
		c.doubt(ctx, era)
		return 0, 0, err
	}
	defer l.leave(s)
	// A broker refuses a request for two offsets of one partition.
	if start, err = c.offsetOnce(ctx, s, topic, partition, kafka.FirstOffset); err != nil {
		return 0, 0, err
	}
	if end, err = c.offsetOnce(ctx, s, topic, partition, kafka.LastOffset); err != nil {
		return 0, 0, err
	}
	if start < 0 || end < start {
		return 0, 0, fmt.Errorf("%w: got range %d to %d", errWrongAnswer, start, end)
	}
	return start, end, nil
}

// offsetOnce returns the offset of the first message at a time, or one of the two that Kafka names by a special time.
func (c *Client) offsetOnce(ctx context.Context, s *slot, topic string, partition int, at int64) (int64, error) {
	x, err := c.exchangeAt(ctx, s, func() protocol.Message {
		return &listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{
			Topic: topic, Partitions: []listoffsets.RequestPartition{{Partition: int32(partition), CurrentLeaderEpoch: -1, Timestamp: at}},
		}}}
	}, 1, nil)
	if err != nil {
		return 0, err
	}
	return parseOffset(x.body, x.version, topic, partition)
}

// parseOffset reads an answer about one offset of a partition.
func parseOffset(body []byte, version int16, topic string, partition int) (int64, error) {
	w := wire{b: body}
	if version >= 2 {
		w.int32() // throttle time: the broker delays the answer itself
	}
	w.one("topic")
	gotTopic := w.string()
	w.one("partition")
	gotPartition, code := int(w.int32()), w.int16()
	w.int64() // time
	offset := w.int64()
	if version >= 4 {
		w.int32() // leader epoch
	}
	switch {
	case w.err != nil:
		return 0, fmt.Errorf("read offsets answer: %w", w.err)
	case gotTopic != topic || gotPartition != partition:
		return 0, fmt.Errorf("%w: got %s/%d", errWrongAnswer, gotTopic, gotPartition)
	}
	return offset, brokerError(code)
}

// Partitions returns how many partitions a topic has, or ErrNoTopic.
func (c *Client) Partitions(ctx context.Context, topic string) (n int, err error) {
	defer c.observe(OpOther)(&err)
	ctx, done, err := c.begin(ctx, c.config.Timeout)
	if err != nil {
		return 0, err
	}
	defer done()
	err = c.retry(ctx, fetchAttempts, func() error {
		var err error
		n, err = c.partitionsOnce(ctx, topic, 0)
		return err
	})
	if err != nil {
		return 0, c.failed("count partitions of", topic, wholeTopic, Unknown, err)
	}
	return n, nil
}

// partitionsOnce counts the partitions of a topic. One of them must be there and have a leader.
func (c *Client) partitionsOnce(ctx context.Context, topic string, partition int) (int, error) {
	era := c.currentEra()
	m, err := c.admin.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		c.doubt(ctx, era)
		return 0, err
	}
	if len(m.Topics) != 1 {
		return 0, fmt.Errorf("%w: got %d topics, want 1", errWrongAnswer, len(m.Topics))
	}
	if code, ok := errors.AsType[kafka.Error](m.Topics[0].Error); ok {
		return 0, brokerError(int16(code))
	}
	ps := m.Topics[0].Partitions
	for _, p := range ps {
		if p.ID != partition {
			continue
		}
		if p.Leader.Host == "" {
			return 0, protocol.NewErrNoLeader(topic, int32(partition))
		}
		return len(ps), nil
	}
	return 0, fmt.Errorf("%w: got partition %d, want under %d", ErrNoTopic, partition, len(ps))
}

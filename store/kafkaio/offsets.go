package kafkaio

import (
	"context"
	"errors"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
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
	_, leader, err := c.partitionsOnce(ctx, topic, partition)
	if err != nil {
		return 0, 0, err // a request that kafka-go cannot route goes to any broker
	}
	l := c.lane(int32(leader))
	era := c.currentEra()
	if err := l.enter(ctx); err != nil {
		c.doubt(ctx, era)
		return 0, 0, err
	}
	defer l.leave()
	// One after the other: kafka-go would send both at once, over two connections.
	first, err := c.offsetOnce(ctx, topic, kafka.FirstOffsetOf(partition))
	if err != nil {
		return 0, 0, err
	}
	last, err := c.offsetOnce(ctx, topic, kafka.LastOffsetOf(partition))
	if err != nil {
		return 0, 0, err
	}
	if start, end = first.FirstOffset, last.LastOffset; start < 0 || end < start {
		return 0, 0, fmt.Errorf("%w: got range %d to %d", errWrongAnswer, start, end)
	}
	return start, end, nil
}

func (c *Client) offsetOnce(ctx context.Context, topic string, r kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
	era := c.currentEra()
	answer, err := c.admin.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {r}}})
	if err != nil {
		c.doubt(ctx, era)
		return kafka.PartitionOffsets{}, err
	}
	if len(answer.Topics[topic]) != 1 {
		return kafka.PartitionOffsets{}, fmt.Errorf("%w: got %d partitions, want 1", errWrongAnswer, len(answer.Topics[topic]))
	}
	p := answer.Topics[topic][0]
	if code, ok := errors.AsType[kafka.Error](p.Error); ok {
		return kafka.PartitionOffsets{}, brokerError(int16(code))
	}
	return p, nil
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
		n, _, err = c.partitionsOnce(ctx, topic, 0)
		return err
	})
	if err != nil {
		return 0, c.failed("count partitions of", topic, wholeTopic, Unknown, err)
	}
	return n, nil
}

// partitionsOnce counts the partitions of a topic, and returns the leader of one of them.
func (c *Client) partitionsOnce(ctx context.Context, topic string, partition int) (n, leader int, err error) {
	era := c.currentEra()
	m, err := c.admin.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		c.doubt(ctx, era)
		return 0, 0, err
	}
	if len(m.Topics) != 1 {
		return 0, 0, fmt.Errorf("%w: got %d topics, want 1", errWrongAnswer, len(m.Topics))
	}
	if code, ok := errors.AsType[kafka.Error](m.Topics[0].Error); ok {
		return 0, 0, brokerError(int16(code))
	}
	ps := m.Topics[0].Partitions
	for _, p := range ps {
		if p.ID != partition {
			continue
		}
		if p.Leader.Host == "" {
			return 0, 0, protocol.NewErrNoLeader(topic, int32(partition))
		}
		return len(ps), p.Leader.ID, nil
	}
	return 0, 0, fmt.Errorf("%w: got partition %d, want under %d", ErrNoTopic, partition, len(ps))
}

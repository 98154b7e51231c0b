package kafkaiotest

import (
	"context"
	"math"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/store/kafkaio"
)

var _ kafkaio.Log = (*Kafka)(nil)

// Fetch does what kafkaio.Client.Fetch does.
func (k *Kafka) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	c := Call{Op: OpFetch, Topic: r.Topic, Partition: r.Partition}
	if r.Offset < 0 {
		return kafkaio.Batch{}, failed(c, kafkaio.Unsent, &kafkaio.RangeError{Offset: r.Offset, End: math.MaxInt64})
	}
	f, end, err := k.begin(ctx, c)
	defer end()
	if err != nil {
		return kafkaio.Batch{}, err
	}
	b, err := k.poll(ctx, r)
	switch {
	case err != nil:
		return kafkaio.Batch{}, failed(c, kafkaio.Unknown, err)
	case f.Err != nil:
		return kafkaio.Batch{}, f.failed(c)
	}
	return b, nil
}

// poll waits for a record, or for r.MaxWait.
func (k *Kafka) poll(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	over := time.NewTimer(max(r.MaxWait, 0))
	defer over.Stop()
	var waits *partition
	for {
		b, p, changed, err := k.read(r)
		if waits != nil && p != waits && err == nil {
			return kafkaio.Batch{}, kafka.NotLeaderForPartition // as brokers answer when a topic was deleted, also if there is a new one
		}
		if waits = p; err != nil || b.Next > r.Offset || r.MaxWait <= 0 {
			return b, err
		}
		select {
		case <-changed:
		case <-over.C:
			return b, nil
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
}

// read returns the records that are there now, their partition, and a channel that is closed at the next change.
func (k *Kafka) read(r kafkaio.FetchRequest) (kafkaio.Batch, *partition, <-chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, p, err := k.find(r.Topic, r.Partition)
	if err != nil {
		return kafkaio.Batch{}, nil, nil, err
	}
	b, err := p.fetch(r, k.maxRecords)
	return b, p, k.changed, err
}

// Produce does what kafkaio.Client.Produce does.
func (k *Kafka) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (base int64, err error) {
	c := Call{Op: OpProduce, Topic: topic, Partition: partition, Messages: msgs}
	if len(msgs) == 0 {
		return -1, failed(c, kafkaio.Unsent, kafkaio.ErrNoMessages)
	}
	f, end, err := k.begin(ctx, c)
	defer end()
	if err != nil {
		return -1, err
	}
	base, err = k.append(topic, partition, msgs)
	switch {
	case err != nil:
		return -1, failed(c, kafkaio.Refused, err)
	case f.Err != nil:
		return -1, f.failed(c)
	}
	return base, nil
}

func (k *Kafka) append(topic string, partition int, msgs []kafkaio.Message) (base int64, err error) {
	k.change(func() {
		t, p, missing := k.find(topic, partition)
		if err = missing; err != nil {
			return
		}
		now := time.Now()
		if err = t.check(msgs, now); err == nil {
			base = p.append(t.timed(msgs, now))
		}
	})
	return base, err
}

// Range does what kafkaio.Client.Range does.
func (k *Kafka) Range(ctx context.Context, topic string, partition int) (start, end int64, err error) {
	c := Call{Op: OpRange, Topic: topic, Partition: partition}
	f, done, err := k.begin(ctx, c)
	defer done()
	if err != nil {
		return 0, 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, p, err := k.find(topic, partition)
	switch {
	case err != nil:
		return 0, 0, failed(c, kafkaio.Unknown, err)
	case f.Err != nil:
		return 0, 0, f.failed(c)
	}
	return p.start, p.end, nil
}

// Partitions does what kafkaio.Client.Partitions does.
func (k *Kafka) Partitions(ctx context.Context, topic string) (int, error) {
	c := Call{Op: OpPartitions, Topic: topic}
	f, done, err := k.begin(ctx, c)
	defer done()
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t, _, err := k.find(topic, 0)
	switch {
	case err != nil:
		return 0, failed(c, kafkaio.Unknown, err)
	case f.Err != nil:
		return 0, f.failed(c)
	}
	return len(t.partitions), nil
}

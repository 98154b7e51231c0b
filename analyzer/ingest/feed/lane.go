package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bounds on what is sent.
const (
	maxParcel   = 256 << 10 // bytes of a parcel: that of a frame, which is schemas.MaxFrame
	maxRequest  = 900 << 10 // bytes of messages in one request: under Kafka's default of max.message.bytes
	queueLength = 4096      // parcels; the budget of bytes is met long before
	retryFirst  = 50 * time.Millisecond
	retryLast   = 2 * time.Second
	warnEvery   = 10 // failures in a row
)

// parcel is what a batch sends to one lane at a time: a frame, or a few rejects.
type parcel struct {
	values [][]byte
	size   int64
	batch  *batch
}

// lane sends parcels to one partition, in order, one request in flight.
type lane struct {
	feed      *Feed
	topic     string
	partition int
	queue     chan parcel
}

func newLane(f *Feed, topic string, partition int) *lane {
	return &lane{feed: f, topic: topic, partition: partition, queue: make(chan parcel, queueLength)}
}

// put queues a parcel, when there is room.
func (l *lane) put(ctx context.Context, p parcel) error {
	if err := l.feed.budget.Acquire(ctx, p.size); err != nil {
		return fmt.Errorf("wait for room: %w", err)
	}
	select {
	case l.queue <- p:
		l.feed.count.queued.Add(p.size)
		return nil
	case <-ctx.Done():
		l.feed.budget.Release(p.size)
		return fmt.Errorf("wait for room: %w", ctx.Err())
	}
}

// run sends until ctx ends. It fails on what can't be mended by trying again.
func (l *lane) run(ctx context.Context) error {
	var parcels []parcel
	var messages []kafkaio.Message
	var next parcel // taken off the queue, but the request was full
	for {
		parcels, messages = parcels[:0], messages[:0]
		if next.batch == nil {
			select {
			case next = <-l.queue:
			case <-ctx.Done():
				return nil
			}
		}
		for size := int64(0); next.batch != nil && size+next.size <= maxRequest; {
			parcels, size = append(parcels, next), size+next.size
			for _, v := range next.values {
				messages = append(messages, kafkaio.Message{Value: v})
			}
			select {
			case next = <-l.queue:
			default:
				next = parcel{}
			}
		}
		if err := l.send(ctx, messages); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // whoever is stopped has not failed: what was not sent will be sent again
			}
			return err
		}
		for _, p := range parcels {
			l.feed.budget.Release(p.size)
			l.feed.count.queued.Add(-p.size)
			p.batch.release()
		}
	}
}

// send appends messages to the partition, however often that takes. One that was appended and not acknowledged is sent
// again all the same: the analyzer counts it once.
func (l *lane) send(ctx context.Context, messages []kafkaio.Message) error {
	f, wait := l.feed, retryFirst
	for try := 0; ; try++ {
		now := f.c.Now().UnixNano()
		for i := range messages {
			messages[i].Time = now
		}
		_, err := f.c.Producer.Produce(ctx, l.topic, l.partition, messages...)
		if err == nil {
			if try >= warnEvery {
				f.c.Logger.Info("sending again", "topic", l.topic, "partition", l.partition)
			}
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, kafkaio.ErrClosed) || errors.Is(err, kafkaio.ErrTooLarge) {
			return fmt.Errorf("send to %s: %w", l.topic, err)
		}
		f.count.retries.Add(1)
		if try%warnEvery == warnEvery-1 {
			f.c.Logger.Warn("cannot send, trying again", "topic", l.topic, "partition", l.partition, "error", err)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("send to %s: %w", l.topic, ctx.Err())
		}
		wait = min(2*wait, retryLast)
	}
}

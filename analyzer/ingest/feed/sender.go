package feed

import (
	"context"
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bounds on what is sent.
const (
	maxParcel   = 256 << 10 // bytes of a parcel: that of a frame, which is schemas.MaxFrame
	maxRequest  = 900 << 10 // bytes of messages in one request: under Kafka's default of max.message.bytes
	queueLength = 4096      // parcels; Config.MaxBytes is usually reached first
)

// parcel is what a batch gives to a sender at once: a frame, or a few rejects.
type parcel struct {
	values [][]byte
	size   int64
	batch  *batch
}

// sender appends parcels to one partition, in order, with one request in flight.
type sender struct {
	feed     *Feed
	topic    string
	queue    chan parcel
	appender *kafkaio.Appender
}

func newSender(f *Feed, topic string, partition int) *sender {
	s := &sender{feed: f, topic: topic, queue: make(chan parcel, queueLength)}
	s.appender = kafkaio.NewAppender(f.c.Producer, kafkaio.AppenderConfig{
		Topic: topic, Partition: partition, Retry: s.retry, Logger: f.c.Logger,
		Stamp: func() int64 { return f.c.Now().UnixNano() },
	})
	return s
}

// put waits for room and queues a parcel.
func (s *sender) put(ctx context.Context, p parcel) error {
	if err := s.feed.budget.Acquire(ctx, p.size); err != nil {
		return fmt.Errorf("wait for room: %w", err)
	}
	s.feed.count.queued.Add(p.size)
	select {
	case s.queue <- p:
		return nil
	case <-ctx.Done():
		s.leave(p)
		return fmt.Errorf("wait for room: %w", ctx.Err())
	}
}

// leave gives a parcel's room back. It counts that first: Queued is never more than there is room for.
func (s *sender) leave(p parcel) {
	s.feed.count.queued.Add(-p.size)
	s.feed.budget.Release(p.size)
}

// run sends until ctx ends. It fails only where another try would fail too.
func (s *sender) run(ctx context.Context) error {
	var parcels []parcel
	var messages []kafkaio.Message
	var next parcel // taken from the queue, but not yet in a request
	for {
		parcels, messages = parcels[:0], messages[:0]
		if next.batch == nil {
			select {
			case next = <-s.queue:
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
			case next = <-s.queue:
			default:
				next = parcel{}
			}
		}
		if err := s.send(ctx, messages); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // a stop is no failure: the next run sends again what was not sent
			}
			return err
		}
		for _, p := range parcels {
			s.leave(p)
			p.batch.release()
		}
	}
}

// send appends messages to the partition, in as many tries as that takes. A message that was appended but not acknowledged
// is sent again; the analyzer counts it once.
func (s *sender) send(ctx context.Context, messages []kafkaio.Message) error {
	if _, err := s.appender.Append(ctx, messages...); err != nil {
		return fmt.Errorf("send to %s: %w", s.topic, err)
	}
	return nil
}

// retry counts a try that failed, and ends the feed where no later try can succeed.
func (s *sender) retry(err error) bool {
	if errors.Is(err, kafkaio.ErrClosed) || errors.Is(err, kafkaio.ErrTooLarge) {
		return false
	}
	s.feed.count.retries.Add(1)
	return true
}

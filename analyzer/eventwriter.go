package analyzer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	maxEventsSent = 512                    // events in one turn: some 200 KiB
	maxEventBytes = 512 << 10              // in one produce: a topic takes 1 MiB, and an event has up to 8 KiB where JSON escapes its texts
	lastEvents    = time.Second            // how long an owner that ends waits for the topic of events; the rest stays in its store
	awayEvents    = 250 * time.Millisecond // a topic that has failed for so long counts as away: nobody waits for it
	drainPoll     = 2 * time.Millisecond
)

// eventWriter is the only writer of events[p]. It writes the events of the queue in order, tries again for as long as the topic fails, and
// writes nothing without a lease. The fold never waits for it. A copy after a lost answer does no harm, because it has the same id.
type eventWriter struct {
	topic    string
	appender *kafkaio.Appender
	queue    *eventlog.Queue
	failing  atomic.Pointer[time.Time] // when the topic began to fail; nil while it does not fail
}

func newEventWriter(log kafkaio.Producer, c OwnerConfig, q *eventlog.Queue) *eventWriter {
	w := &eventWriter{topic: c.Events, queue: q}
	w.appender = kafkaio.NewAppender(log, kafkaio.AppenderConfig{
		Topic: c.Events, Partition: c.Fold.Partition, Lease: c.Lease, Retry: w.retry, Logger: c.Logger,
		Stamp: func() int64 { return time.Now().UnixNano() },
	})
	return w
}

// retry notes that an attempt has failed. There is always another one.
func (w *eventWriter) retry(error) bool {
	now := time.Now()
	w.failing.CompareAndSwap(nil, &now)
	return true
}

// run writes until ctx ends.
func (w *eventWriter) run(ctx context.Context) {
	for w.topic != "" && ctx.Err() == nil {
		list, last := w.queue.Batch(maxEventsSent)
		if len(list) == 0 {
			select {
			case <-ctx.Done():
			case <-w.queue.Wake():
			}
			continue
		}
		for messages := eventMessages(list); len(messages) > 0; {
			n := fittingEvents(messages)
			if _, err := w.appender.Append(ctx, messages[:n]...); err != nil {
				return // ctx has ended
			}
			w.failing.Store(nil)
			messages = messages[n:]
		}
		failpoint.Here(failpoint.EventsWritten)
		w.queue.Ack(last)
	}
}

// eventMessages returns the messages of events. The key of a message is the caller of its event, if there is one.
func eventMessages(list []event.Event) []kafkaio.Message {
	messages := make([]kafkaio.Message, len(list))
	for i := range list {
		messages[i].Value = list[i].Encode()
		if c := list[i].Caller.Caller(); c.Kind != "" {
			messages[i].Key = []byte(c.String())
		}
	}
	return messages
}

// fittingEvents returns how many of the messages one produce takes, at least 1.
func fittingEvents(messages []kafkaio.Message) int {
	const head = 64 // bytes of a record besides key and value, an estimate
	bytes := 0
	for i := range messages {
		if bytes += head + len(messages[i].Key) + len(messages[i].Value); bytes > maxEventBytes {
			return max(1, i)
		}
	}
	return len(messages)
}

// drain waits up to lastEvents until all events are written, but does not wait for a topic that is away. ctx is that of an owner that ends,
// and may have ended.
func (w *eventWriter) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastEvents)
	defer cancel()
	for w.topic != "" && !w.queue.Empty() && !w.away(time.Now()) {
		if kafkaio.Sleep(ctx, drainPoll) != nil {
			return
		}
	}
}

// away reports whether the topic has failed for awayEvents.
func (w *eventWriter) away(now time.Time) bool {
	since := w.failing.Load()
	return since != nil && now.Sub(*since) >= awayEvents
}

package analyzer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bounds on rejects.
const (
	maxRejectsQueued = 256 // some 4 KiB each, at most
	maxRejectsSent   = 32  // in one produce request
)

// rejectWriter writes records that could not be folded to the topic of rejects, for people to look at. Nothing depends on it, because the
// fold counts each such record by its reason. So records that do not fit the queue are counted and dropped.
type rejectWriter struct {
	shown    bool // there is a topic of rejects
	appender *kafkaio.Appender
	source   string
	queue    chan reject.Reject
	dropped  atomic.Uint64
}

func newRejectWriter(log kafkaio.Producer, c OwnerConfig) *rejectWriter {
	return &rejectWriter{
		shown:    c.Rejects != "",
		appender: kafkaio.NewAppender(log, kafkaio.AppenderConfig{Topic: c.Rejects, Retry: kafkaio.Always, Logger: c.Logger}),
		source:   fmt.Sprintf("kafka:%s/%d", c.Requests, c.Fold.Partition),
		queue:    make(chan reject.Reject, maxRejectsQueued),
	}
}

// offer gives the writer a record of requests[p], or the first of several that could not be fetched. It never waits.
// Only the owner's goroutine may call it.
func (w *rejectWriter) offer(now time.Time, offset int64, reason string, value []byte) {
	if !w.shown {
		return
	}
	if len(w.queue) == cap(w.queue) { // only this goroutine adds to it. A record that is dropped is not escaped: that would delay the fold
		w.dropped.Add(1)
		return
	}
	w.queue <- reject.New(now, w.source, offset, reason, value)
}

// lastRejects is how long an owner that ends tries to write the rejects that are queued.
const lastRejects = time.Second

// run writes until ctx ends, and then tries for lastRejects to write the rest.
func (w *rejectWriter) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case r := <-w.queue:
			w.write(ctx, w.batch(r))
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRejects)
	defer cancel()
	for {
		select {
		case r := <-w.queue:
			w.write(last, w.batch(r))
		default:
			return
		}
	}
}

// batch returns the messages of a reject and of those that wait behind it.
func (w *rejectWriter) batch(r reject.Reject) []kafkaio.Message {
	batch := []kafkaio.Message{{Time: r.Time.UnixNano(), Value: r.Encode()}}
	for len(batch) < maxRejectsSent {
		select {
		case r := <-w.queue:
			batch = append(batch, kafkaio.Message{Time: r.Time.UnixNano(), Value: r.Encode()})
		default:
			return batch
		}
	}
	return batch
}

// write tries until it is done or ctx ends. A copy after a lost answer does no harm: source and offset show that it is one.
func (w *rejectWriter) write(ctx context.Context, batch []kafkaio.Message) {
	if _, err := w.appender.Append(ctx, batch...); err != nil {
		w.dropped.Add(uint64(len(batch)))
	}
}

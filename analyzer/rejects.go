package analyzer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// refusal is why the fold refused a frame that could be read.
type refusal struct{ reason, text string }

func (r refusal) Error() string { return r.text }

// reasonOf returns the reason that an error of Fold.Frame was counted under.
func reasonOf(err error) string {
	if r, ok := errors.AsType[refusal](err); ok {
		return r.reason
	}
	return schemas.Reason(err)
}

// Bounds on rejects.
const (
	maxRejectsQueued = 256 // some 4 KiB each, at most
	maxRejectsSent   = 32  // in one produce
)

// rejectWriter writes what could not be folded to the topic of rejects, for people to look at. Nothing depends on it: a
// record is counted by its reason whether it is shown or not, so that what is beyond the queue is dropped, and counted.
type rejectWriter struct {
	log     Log
	config  OwnerConfig
	source  string
	queue   chan reject.Reject
	dropped atomic.Uint64
}

func newRejectWriter(log Log, c OwnerConfig) *rejectWriter {
	return &rejectWriter{
		log: log, config: c, source: fmt.Sprintf("kafka:%s/%d", c.Requests, c.Fold.Partition),
		queue: make(chan reject.Reject, maxRejectsQueued),
	}
}

// offer hands over a record of requests[p], or the first of a stretch that could not be fetched. It never waits.
// Only the owner's goroutine may call it.
func (w *rejectWriter) offer(now time.Time, offset int64, reason string, value []byte) {
	if w.config.Rejects == "" {
		return
	}
	if len(w.queue) == cap(w.queue) { // and nobody else adds to it; escaping what is dropped would hold the fold up
		w.dropped.Add(1)
		return
	}
	w.queue <- reject.New(now, w.source, offset, reason, value)
}

// lastRejects is how long an owner that ends still tries to write what is queued.
const lastRejects = time.Second

// run writes until ctx ends, and then, for a moment, what is left.
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

// write tries until it is done or ctx ends. A copy after a lost answer does no harm: source and offset say that it is one.
func (w *rejectWriter) write(ctx context.Context, batch []kafkaio.Message) {
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		_, err := w.log.Produce(ctx, w.config.Rejects, 0, batch...)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			w.dropped.Add(uint64(len(batch)))
			return
		}
		w.config.Logger.Warn("cannot write rejects, trying again", "records", len(batch), "error", err)
		sleep(ctx, wait)
	}
}

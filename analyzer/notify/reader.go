package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// How a partition is read.
const (
	fetchWait  = 5 * time.Second
	fetchBytes = 1 << 20
	// lookBack is how old events may be with which a new endpoint begins. So no event is lost when a worker is killed before its first
	// commit, or when the topic gets partitions while it runs.
	lookBack = 10 * time.Minute
)

// reader reads one partition of the topic of events for a worker.
type reader struct {
	*worker

	partition int
	since     time.Time // while the beginning is searched: events from before are passed over; else zero
}

// run reads from the committed offset until ctx ends.
func (r *reader) run(ctx context.Context, committed int64) {
	from := committed
	if from < 0 {
		from, r.since = kafkaio.Earliest, time.Now().Add(-lookBack)
	}
	cursor := kafkaio.NewCursor(r.c.Fetcher, kafkaio.CursorConfig{
		Topic: r.c.Topic, Partition: r.partition, Offset: from, MaxWait: fetchWait, MaxBytes: fetchBytes,
		Retry: kafkaio.Always, Logger: r.logger(),
	})
	for {
		b, err := cursor.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, kafkaio.ErrTruncated):
			r.logger().Error("the topic of events is another than before: reading its newest events", "partition", r.partition, "error", err)
			r.since = time.Now().Add(-lookBack)
			cursor.MoveTo(kafkaio.Earliest)
			r.restart()
			continue
		case err != nil: // a client that was closed
			r.logger().Error("cannot read events", "partition", r.partition, "error", err)
			<-ctx.Done()
			return
		}
		if r.batch(ctx, b) != nil {
			return // ctx has ended: what was read is read again
		}
	}
}

// batch gives the events of a batch to the queue.
func (r *reader) batch(ctx context.Context, b kafkaio.Batch) error {
	for _, s := range b.Skipped {
		r.lost(s)
	}
	for n := range b.Records {
		record := &b.Records[n]
		if !r.begun(!time.Unix(0, record.Time).Before(r.since)) {
			continue
		}
		i := r.item(record)
		if i == nil {
			r.passed(record.Offset + 1)
			continue
		}
		if err := r.add(ctx, i, record.Offset); err != nil {
			return err
		}
	}
	if r.begun(b.Next >= b.HighWater) {
		r.passed(b.Next)
	}
	return nil
}

// begun reports whether the reader has found the event to begin with; found says that it is the present one. Until then nothing is
// committed, so that after a restart the search begins again.
func (r *reader) begun(found bool) bool {
	if found {
		r.since = time.Time{}
	}
	return r.since.IsZero()
}

// item returns the event of a record if the endpoint wants it, else nil.
func (r *reader) item(record *kafkaio.Record) *item {
	if len(record.Value) == 0 {
		return nil
	}
	e, err := event.Decode(record.Value)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.stats.Unreadable++
		if r.stats.Unreadable == 1 {
			r.logger().Warn("cannot read a message of the topic of events", "partition", r.partition, "offset", record.Offset, "error", err)
		}
		return nil
	case !e.Known():
		r.stats.Unknown++
		return nil
	case !r.settings.Wants(&e):
		return nil
	}
	return &item{event: &e, key: keyOf(&e), written: time.Unix(0, record.Time), partition: r.partition}
}

// keyOf returns what the order of an event is kept by: its caller, or its partition.
func keyOf(e *event.Event) string {
	if e.Caller.Kind == "" {
		return fmt.Sprintf("%d", e.Partition)
	}
	return e.Caller.Caller().String() // it has a colon
}

// passed notes that everything before an offset was read.
func (r *reader) passed(next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledgers[r.partition].passed(next)
}

// restart makes the ledger begin anew, in another topic.
func (r *reader) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledgers[r.partition].next = -1
}

// lost counts records that cannot be read any more.
func (r *reader) lost(s kafkaio.Skip) {
	if !r.since.IsZero() && s.Reason == kafkaio.SkipLost {
		return // nobody has asked for them
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Lost += uint64(s.To - s.From + 1)
	r.logger().Error("cannot read messages of the topic of events", "partition", r.partition, "from", s.From, "to", s.To, "error", s.Err)
}

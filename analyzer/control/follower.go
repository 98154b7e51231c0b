package control

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Follower reads the topic ahead of an owner, until the owner ends. Make one with NewFollower and call Run once. Status may be called from
// any goroutine.
type Follower struct {
	topic   Topic
	logger  *slog.Logger
	cursor  *kafkaio.Cursor
	batches chan Batch
	trouble atomic.Pointer[error]
	end     atomic.Int64
	again   atomic.Uint64
}

// Status says how far a Follower is.
type Status struct {
	End     int64  // the offset behind the topic's last record, as of the last answer
	Again   uint64 // how often the topic began anew
	Trouble error  // why the topic cannot be read now, or nil
}

// fetchBytes is how much of the topic is fetched at a time.
const fetchBytes = 1 << 20

// NewFollower returns a follower that begins at an offset. A nil logger discards. NewFollower does no I/O.
func NewFollower(log kafkaio.Fetcher, t Topic, offset int64, logger *slog.Logger) *Follower {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	f := &Follower{topic: t, logger: logger.With("topic", t.name), batches: make(chan Batch, 1)}
	f.cursor = kafkaio.NewCursor(log, kafkaio.CursorConfig{
		Topic: t.name, Offset: offset, MaxBytes: fetchBytes, Retry: f.retry,
	})
	return f
}

// Batches returns what was read, in order. It is closed when Run returns.
func (f *Follower) Batches() <-chan Batch { return f.batches }

// Status returns how far the follower is.
func (f *Follower) Status() Status {
	s := Status{End: f.end.Load(), Again: f.again.Load()}
	if err := f.trouble.Load(); err != nil {
		s.Trouble = *err
	}
	return s
}

// retry notes why an attempt failed, and logs the first of several failures. It always allows another attempt: whatever the reason is, a
// person may repair it.
func (f *Follower) retry(err error) bool {
	if old := f.trouble.Swap(&err); old == nil && !errors.Is(err, context.Canceled) {
		f.logger.Warn("cannot read what people have decided by hand: counting goes on without it", "error", err)
	}
	return true
}

// Run reads until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	defer close(f.batches)
	again := false
	for ctx.Err() == nil {
		first := f.cursor.Offset()
		b, err := f.cursor.Next(ctx)
		if errors.Is(err, kafkaio.ErrTruncated) {
			f.startAgain(err)
			again = true
			continue
		}
		if err != nil {
			continue // ctx has ended
		}
		if f.trouble.Swap(nil) != nil {
			f.logger.Info("what people have decided by hand can be read again")
		}
		f.end.Store(b.HighWater)
		if len(b.Records) == 0 && len(b.Skipped) == 0 && !again {
			continue
		}
		out := f.topic.read(&b)
		if out.First = first; first == kafkaio.Earliest {
			out.First = start(&b)
		}
		out.Again, again = again, false
		out.Skipped.Log(f.logger, out.Next)
		select {
		case f.batches <- out:
		case <-ctx.Done():
		}
	}
}

// startAgain makes the follower read all of the topic again.
func (f *Follower) startAgain(why error) {
	f.logger.Error("the topic of control was made anew, or has lost records: reading all of it once more", "error", why)
	f.again.Add(1)
	f.cursor.MoveTo(kafkaio.Earliest)
}

// start returns the first offset of a batch that was fetched from the start of the topic.
func start(b *kafkaio.Batch) int64 {
	switch {
	case len(b.Skipped) > 0:
		return b.Skipped[0].From
	case len(b.Records) > 0:
		return b.Records[0].Offset
	}
	return b.Next
}

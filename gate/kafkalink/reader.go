package kafkalink

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
)

// readerConfig says what a reader reads, and who gets it.
type readerConfig struct {
	topic     string
	partition int
	handler   Handler
	canary    func(*schemas.Decision, time.Time) // gets answers to canaries; nil drops them
	health    *health
	once      bool // it ends when it has caught up, or at an error of Kafka
}

// reader reads one partition of decisions for a Handler.
type reader struct {
	readerConfig
	cursor *kafkaio.Cursor
	judge  decisions.Follower // kept when the log moves, so that no decision is applied twice
	at     decisions.Place
	caught bool
	batch  []schemas.Decision // to be applied together
	task   string             // its name in health
}

func newReader(log kafkaio.Log, c readerConfig) *reader {
	r := &reader{
		readerConfig: c, task: task("follow", c.partition),
		judge: decisions.Follower{Partition: int32(c.partition)}, // a partition number
	}
	r.cursor = kafkaio.NewCursor(log, kafkaio.CursorConfig{Topic: c.topic, Partition: c.partition, Retry: r.retry})
	return r
}

// run reads until ctx ends, and returns its error. A reader with once also ends when it has caught up, or with the first
// error of Kafka.
func (r *reader) run(ctx context.Context) error {
	var wait kafkaio.Backoff
	for {
		at, err := decisions.Find(ctx, r.cursor, int32(r.partition), time.Now) // a partition number
		if err == nil {
			wait.Reset()
			r.at = at
			r.judge.Start(at)
			if err = r.read(ctx); err != nil && ctx.Err() == nil {
				r.handler.Restarted(r.partition)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			return nil
		}
		if r.once && r.failure(err) != nil {
			return err
		}
		r.health.note(r.task, r.failure(err))
		if err := wait.Pause(ctx); err != nil {
			return err
		}
	}
}

// failure returns err, or nil if it says that the place was lost: Kafka can be reached then.
func (r *reader) failure(err error) error {
	if errors.Is(err, kafkaio.ErrTruncated) || errors.Is(err, decisions.ErrMoved) {
		return nil
	}
	return err
}

// retry notes an attempt that failed, and wants another unless once is set.
func (r *reader) retry(err error) bool {
	if !errors.Is(err, context.Canceled) { // a stop says nothing about Kafka
		r.health.note(r.task, r.failure(err))
	}
	return !r.once && kafkaio.Always(err)
}

// read gives the records from r.at on to the Handler until the place is lost or ctx ends, and returns why. A reader with once returns
// nil when it has caught up.
func (r *reader) read(ctx context.Context) error {
	r.cursor.MoveTo(r.at.Read)
	for {
		r.health.note(r.task, nil)
		if !r.caught && r.cursor.Offset() >= r.at.End {
			r.caught = true
			r.handler.CaughtUp(r.partition)
		}
		if r.caught && r.once {
			return nil
		}
		b, err := r.cursor.Next(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(b.Skipped, func(s kafkaio.Skip) bool { return s.Reason == kafkaio.SkipLost }) {
			return decisions.ErrMoved
		}
		if err := r.receive(&b); err != nil {
			return err
		}
	}
}

// receive gives the records of a batch to the Handler. The error is decisions.ErrMoved if one of them shows that the reader
// started behind decisions that count.
func (r *reader) receive(b *kafkaio.Batch) error {
	for _, s := range b.Skipped {
		if s.Reason != kafkaio.SkipGap && s.Reason != kafkaio.SkipControl {
			r.handler.Refused(r.partition, string(s.Reason), uint64(s.To-s.From+1)) // > 0
			r.health.logger.Error("skipped decisions", "partition", r.partition, "from", s.From, "to", s.To, "reason", s.Reason, "error", s.Err)
		}
	}
	r.batch = r.batch[:0]
	defer r.apply()
	for i := range b.Records {
		now := time.Now()
		rec, err := r.judge.Take(&b.Records[i], now.UnixNano())
		switch {
		case err != nil && !errors.Is(err, decisions.ErrMoved):
			r.handler.Refused(r.partition, decisions.Reason(err), 1)
		case rec.Heartbeat != nil:
			r.apply() // in the order of the log
			r.handler.Heartbeat(rec.Heartbeat, time.Now())
			if err != nil {
				return err
			}
		case rec.Decision != nil:
			r.collect(rec.Decision, now)
		}
	}
	return nil
}

// collect collects a decision, to apply it together with others.
func (r *reader) collect(d *schemas.Decision, now time.Time) {
	if d.Caller.Kind == schemas.KindCanary {
		if r.canary != nil {
			r.canary(d, now)
		}
		return
	}
	d.Until = min(d.Until, now.Add(schemas.MaxClosure).UnixNano())
	r.batch = append(r.batch, *d)
	if len(r.batch) == maxBatch {
		r.apply()
	}
}

// maxBatch is how many decisions are applied together at most. A Set is locked for other writers meanwhile.
const maxBatch = 1024

// apply gives the decisions that were collected to the Handler.
func (r *reader) apply() {
	if len(r.batch) == 0 {
		return
	}
	r.handler.Decisions(r.partition, r.batch, time.Now())
	clear(r.batch)
	r.batch = r.batch[:0]
}

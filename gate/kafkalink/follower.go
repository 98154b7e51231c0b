package kafkalink

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
)

// followerConfig says what a follower reads, and who takes it.
type followerConfig struct {
	topic     string
	partition int
	handler   Handler
	canary    func(*schemas.Decision, time.Time) // takes answers to canaries; nil drops them
	health    *health
	logger    *slog.Logger
	once      bool // it ends when it has caught up, or at an error of Kafka
}

// follower reads one partition of decisions for a Handler.
type follower struct {
	followerConfig
	cursor *kafkaio.Cursor
	judge  decisions.Follower // kept when the log moves: what was applied is not applied again
	at     decisions.Place
	caught bool
	batch  []schemas.Decision // to be applied together
	task   string             // its name in health
}

func newFollower(log kafkaio.Log, c followerConfig) *follower {
	f := &follower{
		followerConfig: c, task: task("follow", c.partition),
		judge: decisions.Follower{Partition: int32(c.partition)}, // a partition number
	}
	f.cursor = kafkaio.NewCursor(log, kafkaio.CursorConfig{Topic: c.topic, Partition: c.partition, Retry: f.retry})
	return f
}

// run follows until ctx ends, and returns its error. A follower that reads once also ends when it has caught up, or with the first
// error of Kafka.
func (f *follower) run(ctx context.Context) error {
	var wait kafkaio.Backoff
	for {
		at, err := decisions.Find(ctx, f.cursor, int32(f.partition), time.Now) // a partition number
		if err == nil {
			wait.Reset()
			f.at = at
			f.judge.Start(at)
			if err = f.follow(ctx); err != nil && ctx.Err() == nil {
				f.handler.Restarted(f.partition)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			return nil
		}
		if f.once && f.failure(err) != nil {
			return err
		}
		f.health.note(f.task, f.failure(err))
		if err := wait.Pause(ctx); err != nil {
			return err
		}
	}
}

// failure returns err, or nil if it says that the place was lost: Kafka can be reached then.
func (f *follower) failure(err error) error {
	if errors.Is(err, kafkaio.ErrTruncated) || errors.Is(err, kafkaio.ErrTopicAway) || errors.Is(err, decisions.ErrMoved) {
		return nil
	}
	return err
}

// retry notes an attempt that failed, and wants another unless the follower reads once.
func (f *follower) retry(err error) bool {
	if !errors.Is(err, context.Canceled) { // a stop says nothing about Kafka
		f.health.note(f.task, f.failure(err))
	}
	return !f.once && kafkaio.Always(err)
}

// follow applies records from f.at on until the place is lost or ctx ends, and returns why. A follower that reads once returns
// nil when it has caught up.
func (f *follower) follow(ctx context.Context) error {
	f.cursor.MoveTo(f.at.Read)
	for {
		f.health.note(f.task, nil)
		if !f.caught && f.cursor.Offset() >= f.at.End {
			f.caught = true
			f.handler.CaughtUp(f.partition)
		}
		if f.caught && f.once {
			return nil
		}
		b, err := f.cursor.Next(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(b.Skipped, func(s kafkaio.Skip) bool { return s.Reason == kafkaio.SkipLost }) {
			return decisions.ErrMoved
		}
		if err := f.receive(&b); err != nil {
			return err
		}
	}
}

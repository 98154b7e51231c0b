package kafkalink

import (
	"context"
	"errors"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// follower reads one partition of decisions and applies them to the Set.
type follower struct {
	*session
	partition int
	fence     schemas.Fence // kept when the log moves: what was applied is not applied again
	at        place
	moved     uint64 // epoch whose heartbeat showed that the place was wrong: it does so once
	caught    bool
	batch     []schemas.Decision // to be applied together
	fails     string             // who fails, for health
}

func newFollower(s *session, p int) *follower {
	return &follower{session: s, partition: p, fails: who("follow", p)}
}

// run follows until ctx ends.
func (f *follower) run(ctx context.Context) {
	var wait backoff
	for {
		at, err := f.find(ctx)
		if err == nil {
			wait.reset()
			f.at = at
			err = f.follow(ctx)
			f.counts.restarts.Add(1)
		}
		if ctx.Err() != nil {
			return
		}
		f.health.note(f.fails, f.failure(err))
		if wait.pause(ctx) != nil {
			return
		}
	}
}

// errMoved says that a follower has to look for its place again.
var errMoved = errors.New("place in the log was lost")

// failure is err, or nil if it says that the place was lost: Kafka is there, then.
func (f *follower) failure(err error) error {
	if errors.Is(err, kafkaio.ErrOffsetOutOfRange) || errors.Is(err, errMoved) {
		return nil
	}
	return err
}

// pollWait is how long a fetch waits for records. They are there at once when they come.
const pollWait = 500 * time.Millisecond

// follow applies records from f.at on until the place is lost or ctx ends. It returns why.
func (f *follower) follow(ctx context.Context) error {
	var wait backoff
	for next := f.at.read; ; {
		b, err := f.fetch(ctx, next, f.patience())
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, kafkaio.ErrOffsetOutOfRange):
			return err
		}
		f.health.note(f.fails, err)
		if err != nil {
			if err := wait.pause(ctx); err != nil {
				return err
			}
			continue
		}
		wait.reset()
		if err := f.receive(&b); err != nil {
			return err
		}
		next = b.Next
		if !f.caught && next >= f.at.end {
			f.caught = true
			f.caughtUp()
		}
	}
}

// patience is how long to wait for records: not at all before everything that is there was read.
func (f *follower) patience() time.Duration {
	if f.caught {
		return pollWait
	}
	return 0
}

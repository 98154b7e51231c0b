package kafkalink

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is growing pauses between attempts, in part random, so that a thousand servers don't knock at once. The zero
// value is ready to use. One goroutine may use it.
type backoff struct{ last time.Duration }

const (
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// pause waits, each time longer, or until ctx ends, which is the error.
func (b *backoff) pause(ctx context.Context) error {
	b.last = min(max(2*b.last, minPause), maxPause)
	return sleep(ctx, b.last/2+rand.N(b.last/2)) //nolint:gosec // nobody gains by guessing it
}

// reset makes the next pause the shortest.
func (b *backoff) reset() { b.last = 0 }

// sleep waits for d or until ctx ends, which is the error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

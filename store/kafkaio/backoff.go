package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Defaults of Backoff.
const (
	DefaultMinPause = 20 * time.Millisecond
	DefaultMaxPause = time.Second
)

// Backoff makes pauses between attempts. Each pause is twice as long as the one before, from Min up to Max. Half of a pause
// is random, so that a thousand servers do not try again at the same moment. The zero value is ready to use. A Backoff is
// for one goroutine.
type Backoff struct {
	Min time.Duration // upper bound of the first pause; 0 is DefaultMinPause
	Max time.Duration // upper bound of all pauses; 0 is DefaultMaxPause

	last time.Duration
}

// Pause waits. It returns early if ctx ends; the error is then that of ctx.
func (b *Backoff) Pause(ctx context.Context) error {
	first, longest := b.Min, b.Max
	if first <= 0 {
		first = DefaultMinPause
	}
	if longest <= 0 {
		longest = DefaultMaxPause
	}
	b.last = min(max(2*b.last, first), longest)
	return Sleep(ctx, b.last/2+rand.N(b.last/2+1)) //nolint:gosec // not a secret
}

// Reset makes the next pause the shortest again.
func (b *Backoff) Reset() { b.last = 0 }

// Sleep waits for d. It returns early if ctx ends; the error is then that of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Retry decides what follows an attempt that failed with err: true means another attempt, false ends the call with err.
// Temporary, Always and Never are ready to use. A Retry may also count failures, or report them. A Cursor or Appender calls
// it once for each attempt that failed, in the goroutine of the call. It also calls it when the context has ended, and then
// ignores the result.
type Retry func(err error) bool

// Always is a Retry that tries again after every error except ErrClosed. Use it where a person may repair the cause while
// the program runs, such as a missing topic or a missing access right.
func Always(err error) bool { return !errors.Is(err, ErrClosed) }

// Never is a Retry that returns each error at once. Use it in a command that a person waits for.
func Never(error) bool { return false }

// logEvery is how many attempts of one call fail between two log lines, after the first line.
const logEvery = 10

// attempts paces the attempts of one call and logs those that fail.
type attempts struct {
	retry  Retry
	logger *slog.Logger
	what   string // the call, for the log
	failed int
	wait   Backoff
}

func newAttempts(retry Retry, logger *slog.Logger, what string) attempts {
	if retry == nil {
		retry = Temporary
	}
	return attempts{retry: retry, logger: logger, what: what}
}

// again waits before another attempt. It returns an error if there must be none: err, or that of ctx with err.
func (a *attempts) again(ctx context.Context, err error) error {
	again := a.retry(err)
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	if !again {
		return err
	}
	a.failed++
	lease := errors.Is(err, ErrNoLease)
	if a.failed == 1 || a.failed%logEvery == 0 && !lease {
		a.logger.Warn("cannot "+a.what+", trying again", "failed", a.failed, "error", err)
	}
	if lease {
		a.wait.Reset()
		return endedOr(ctx, Sleep(ctx, leasePoll), err)
	}
	return endedOr(ctx, a.wait.Pause(ctx), err)
}

// succeeded logs that the call works again, if its failures were logged.
func (a *attempts) succeeded() {
	if a.failed >= logEvery {
		a.logger.Info("can "+a.what+" again", "failed", a.failed)
	}
}

// ended returns the error of ctx and why the last attempt failed. Its Outcome is that of err.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

func endedOr(ctx context.Context, paused, err error) error {
	if paused == nil {
		return nil
	}
	return ended(ctx, err)
}

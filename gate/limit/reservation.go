package limit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Errors of Wait, of Do, and of Schedule.
var (
	ErrNever  = errors.New("limit: more at once than the limit ever allows")
	ErrFull   = errors.New("limit: queue is full")
	ErrClosed = errors.New("limit: schedule is closed")
)

// Reservation is a turn that was booked. It is a value, and nothing is allocated for it. The zero value is no turn. One
// goroutine may use it.
type Reservation struct {
	clock *clock
	turn  int64 // or never
	ok    bool
	charge
}

// charge is what Cancel takes back.
type charge struct {
	rule    algorithm
	state   []atomic.Uint64
	receipt receipt
	n       int64
}

func free(c *clock, t int64) Reservation { return Reservation{clock: c, turn: t, ok: true} }

func booked(c *clock, t, wait int64, ok bool, paid charge) Reservation {
	r := Reservation{clock: c, turn: never, ok: ok}
	if wait != never {
		r.turn = t + wait
	}
	if ok {
		r.charge = paid
	}
	return r
}

// OK reports whether a turn was booked. If not, it would have come later than was asked for, or never, or a LeakyBucket's
// queue was full; Delay still says when it would have been.
func (r *Reservation) OK() bool { return r.ok }

// Delay returns how long it is until the turn: 0 if it has come, Never if it never will.
func (r *Reservation) Delay() time.Duration {
	if r.clock == nil {
		return Never
	}
	return r.delay(r.clock.now())
}

// DelayFrom is Delay as of a time.
func (r *Reservation) DelayFrom(at time.Time) time.Duration {
	if r.clock == nil {
		return Never
	}
	return r.delay(r.clock.at(at))
}

func (r *Reservation) delay(t int64) time.Duration {
	if r.turn == never {
		return Never
	}
	return time.Duration(max(0, r.turn-t))
}

// Cancel says that what the turn was booked for does not happen, whether the turn is yet to come or not, and gives it back
// for others as far as that never admits more than the limit: turns that were booked meanwhile stay where they are. Ring,
// Fixed and Sliding give everything back, which for a Ring means to copy it. A bucket gives back what nobody has been
// charged after, as golang.org/x/time/rate does in effect; a Ring's key in a Keyed gives back nothing. Cancel may be called
// once for a turn, and not for a copy of it; a second call on the same value does nothing.
func (r *Reservation) Cancel() {
	if r.rule != nil {
		r.rule.give(r.state, r.receipt, r.n)
	}
	r.charge, r.ok = charge{}, false
}

// booker is a limiter, or one key of a Keyed.
type booker interface {
	now() int64
	reserve(t int64, n int, most int64) Reservation
}

// wait books a turn and blocks until then.
func wait(ctx context.Context, l booker, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	most := maxPeriod
	if deadline, ok := ctx.Deadline(); ok {
		most = max(0, int64(time.Until(deadline)))
	}
	t := l.now()
	r := l.reserve(t, n, most)
	d := r.delay(t)
	switch {
	case !r.ok && d == Never:
		return ErrNever
	case !r.ok && int64(d) <= most:
		return ErrFull
	case !r.ok:
		return fmt.Errorf("limit: turn is in %v: %w", d, context.DeadlineExceeded)
	case d == 0:
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		r.Cancel()
		return ctx.Err()
	}
}

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
	ErrNever  = errors.New("limit: got more at once than the limit ever allows")
	ErrFull   = errors.New("limit: queue is full")
	ErrClosed = errors.New("limit: schedule is closed")
)

// Reservation is a turn that was booked. It is a value and needs no allocation. The zero value is no turn. One goroutine at
// a time may use it.
type Reservation struct {
	clock *clock
	turn  int64 // or never
	ok    bool
	charge
}

// charge is what Cancel refunds.
type charge struct {
	algorithm algorithm
	state     []atomic.Uint64
	receipt   receipt
	n         int64
}

func freeReservation(c *clock, t int64) Reservation { return Reservation{clock: c, turn: t, ok: true} }

func newReservation(c *clock, t, wait int64, ok bool, charged charge) Reservation {
	r := Reservation{clock: c, turn: never, ok: ok}
	if wait != never {
		r.turn = t + wait
	}
	if ok {
		r.charge = charged
	}
	return r
}

// OK reports whether a turn was booked. If not, the turn would come later than maxWait, or never, or the queue of a
// LeakyBucket was full. Delay then returns how long it would be until the turn.
func (r *Reservation) OK() bool { return r.ok }

// Delay returns how long it is until the turn: 0 if the turn has come, Never if it never comes.
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

// Cancel says that the event for which the turn was booked does not happen. The turn may be in the future or in the past.
// Cancel refunds the turn to others as far as that never admits more than the limit; turns that were booked meanwhile stay
// where they are. Ring, Fixed and Sliding refund everything; a Ring copies its slots for that. A bucket refunds a turn only
// if no other was booked after it, as golang.org/x/time/rate does in effect. A Ring's key in a Keyed refunds nothing. Cancel
// may be called for one copy of a Reservation only. A second call on the same value does nothing.
func (r *Reservation) Cancel() {
	if r.algorithm != nil {
		r.algorithm.refund(r.state, r.receipt, r.n)
	}
	r.charge, r.ok = charge{}, false
}

// booker is a limiter, or one key of a Keyed.
type booker interface {
	now() int64
	reserve(t int64, n int, maxWait int64) Reservation
}

// wait books a turn and blocks until then.
func wait(ctx context.Context, l booker, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	maxWait := maxPeriod
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = max(0, int64(time.Until(deadline)))
	}
	t := l.now()
	r := l.reserve(t, n, maxWait)
	d := r.delay(t)
	switch {
	case !r.ok && d == Never:
		return ErrNever
	case !r.ok && int64(d) <= maxWait:
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

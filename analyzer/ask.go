package analyzer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
)

// At says which prefix of the log an answer is about.
type At struct {
	Partition int
	Epoch     uint64
	Offset    int64 // the next record of requests[p] to be counted
	Control   int64 // the next record of the control topic to be applied
	LogTime   int64 // Unix nanoseconds: the newest time that was counted; math.MinInt64 if there was none
}

// NotOwnerError says that this analyzer does not own a partition.
type NotOwnerError struct{ Partition int }

// Error implements error.
func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("this analyzer does not own partition %d", e.Partition)
}

// NotRunningError says that the owner of a partition cannot answer now.
type NotRunningError struct {
	Partition int
	State     State
	NoLease   bool // the lease has run out, so that another owner may have the partition
}

// Error implements error.
func (e *NotRunningError) Error() string {
	if e.NoLease {
		return fmt.Sprintf("partition %d may have another owner by now: the lease has run out", e.Partition)
	}
	return fmt.Sprintf("partition %d: got state %s, want running or memory-only", e.Partition, e.State)
}

// ErrBusy says that maxQuestions questions wait for the owner already.
var ErrBusy = errors.New("too many questions wait for the owner of the partition: try again")

// ErrQuestion says that a question has panicked, which is a bug in the question. The owner continues to count.
var ErrQuestion = errors.New("the question failed, which is a bug: the log has its stack")

const (
	// maxQuestions is how many questions may wait for an owner.
	maxQuestions = 64
	// askTurn is about how long an owner answers questions before it folds the next record, if many wait. The question that is being answered
	// then may take longer.
	askTurn = 500 * time.Microsecond
)

// Ask calls f with what the owner of a partition has counted, in the owner's goroutine between two records, and returns when f has
// returned. f must be short, tens of microseconds, because nothing is counted meanwhile. f must not change what it is given, and must not
// keep it. Any goroutine may call Ask, but f must not.
//
// If ctx ends first, f is not called. The error is that of ctx, a *NotOwnerError, a *NotRunningError, ErrBusy or ErrQuestion. An owner
// answers while it is running or memory-only, and holds the lease.
func (a *Analyzer) Ask(ctx context.Context, partition int, f func(*fold.Fold, At)) error {
	a.mu.Lock()
	run := a.owners[partition]
	var owner *Owner
	if run != nil {
		owner = run.owner
	}
	a.mu.Unlock()
	if owner == nil {
		return &NotOwnerError{Partition: partition}
	}
	return owner.Ask(ctx, f)
}

// Ask is Analyzer.Ask for the partition of this owner.
func (o *Owner) Ask(ctx context.Context, f func(*fold.Fold, At)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := o.mayAnswer(); err != nil {
		return err
	}
	q := &question{f: f, answered: make(chan error, 1)}
	select {
	case o.questions.waiting <- q:
	default:
		return ErrBusy
	}
	select {
	case err := <-q.answered:
		return err
	case <-ctx.Done():
		if q.withdraw() {
			return ctx.Err()
		}
	case <-o.questions.over:
		if q.withdraw() {
			return &NotRunningError{Partition: o.config.Fold.Partition, State: stateDraining}
		}
	}
	return <-q.answered // f is being called
}

// mayAnswer returns why the owner cannot answer now, or nil.
func (o *Owner) mayAnswer() error {
	p := o.config.Fold.Partition
	if state := o.ledger.current(); !state.Decides() {
		return &NotRunningError{Partition: p, State: state}
	} else if !o.config.Lease(time.Now()) {
		return &NotRunningError{Partition: p, State: state, NoLease: true}
	}
	return nil
}

// questions holds the questions that wait for an owner. Only the owner's goroutine may use it, except for its channels.
type questions struct {
	waiting chan *question
	over    chan struct{} // closed when the owner answers no more
	ledger  *ledger
}

func newQuestions(l *ledger) *questions {
	return &questions{waiting: make(chan *question, maxQuestions), over: make(chan struct{}), ledger: l}
}

// question is one question that waits, or is being answered.
type question struct {
	f        func(*fold.Fold, At)
	taken    atomic.Bool // the owner answers the question, or its asker has withdrawn it
	answered chan error  // has room, so that the owner never waits
}

// withdraw withdraws the question. It returns false if the owner is already answering it.
func (q *question) withdraw() bool { return q.taken.CompareAndSwap(false, true) }

// anyWaiting reports whether any question waits. It is called before each record, so it must cost next to nothing.
func (a *questions) anyWaiting() bool { return len(a.waiting) > 0 }

// turn answers the questions that wait, for about askTurn at most.
func (a *questions) turn() {
	for begun := time.Now(); ; {
		select {
		case q := <-a.waiting:
			a.answer(q)
		default:
			return
		}
		if time.Since(begun) >= askTurn {
			return
		}
	}
}

// answer answers one question. A panic in it is logged and answered with ErrQuestion, and the owner continues to count. That is safe,
// because a question only reads. If a panic stopped the owner, anybody who found such a question could stop the counting again and again.
func (a *questions) answer(q *question) {
	if !q.taken.CompareAndSwap(false, true) {
		return
	}
	l := a.ledger
	if !l.config.Lease(time.Now()) {
		q.answered <- &NotRunningError{Partition: l.config.Fold.Partition, State: l.current(), NoLease: true}
		return
	}
	failed := ErrQuestion
	defer func() {
		if p := recover(); p != nil {
			l.logger.Error("a question about the counts has panicked, which is a bug", "panic", p, "stack", string(debug.Stack()))
		}
		q.answered <- failed
	}()
	q.f(l.fold, l.at())
	failed = nil
}

// at returns where the owner is, between two records.
func (l *ledger) at() At {
	return At{Partition: l.config.Fold.Partition, Epoch: l.epoch, Offset: l.next.Load(), Control: l.control.Load(), LogTime: l.fold.LogTime()}
}

package analyzer

import (
	"errors"
	"time"

	"github.com/509da70d/floodgate/store"
)

// checkpoint returns the checkpoint of the ledger's present state.
func (l *ledger) checkpoint() store.Checkpoint {
	return store.Checkpoint{
		Next: l.next.Load(), RulesID: l.fold.Rules().ID(), RulesFrom: l.rulesFrom,
		LogTime: l.fold.LogTime(), TailOffset: l.tail.Offset, TailCRC: l.tail.CRC,
		Placed: l.placed.Placed, Epoch: l.placed.Epoch,
	}
}

// allCommitted reports whether the store has all that was folded and applied.
func (l *ledger) allCommitted() bool {
	at := l.store.Checkpoint()
	return l.next.Load() == at.Next && l.placed.Placed == at.Placed && l.commits.unwritten.changes == nil && !l.events.Dirty()
}

// commitIfDue starts a checkpoint if one is due and none is being written.
func (l *ledger) commitIfDue(now time.Time) {
	if l.commits.busy || now.Sub(l.committed) < l.config.Checkpoint {
		return
	}
	if l.allCommitted() {
		return
	}
	l.committed = now
	l.commits.start(l.nextJob())
}

// nextJob returns the next checkpoint: the one that a full disk has refused, or else the changes since the last one.
func (l *ledger) nextJob() checkpointJob {
	if l.commits.unwritten.changes != nil {
		return l.commits.unwritten
	}
	return l.withEvents(checkpointJob{at: l.checkpoint(), changes: l.fold.TakeDirty()})
}

// commitEnded handles the result of a checkpoint. If the disk is full, the owner goes on in memory.
func (l *ledger) commitEnded(r result) error {
	l.commits.busy, l.commits.unwritten = false, r.unwritten
	state := l.current()
	if r.err == nil {
		l.durable.Store(l.store.Checkpoint().Next)
	}
	switch {
	case r.err == nil && state.Decides():
		l.enter(stateRunning)
	case errors.Is(r.err, store.ErrNoSpace) && state != stateDraining:
		if state != stateMemoryOnly { // log it once
			l.config.Logger.Error("cannot checkpoint: counting goes on in memory", "error", r.err)
		}
		if state.Decides() {
			l.enter(stateMemoryOnly)
		}
		return nil
	}
	return r.err
}

// commitNow waits for the checkpoint that is being written, and then writes one more. While the disk is full it writes none.
func (l *ledger) commitNow() error {
	if err := l.settle(); err != nil || l.commits.unwritten.changes != nil {
		return err
	}
	l.commits.start(l.nextJob())
	l.committed = time.Now()
	return l.settle()
}

// settle waits for the checkpoint that is being written, if there is one.
func (l *ledger) settle() error {
	if !l.commits.busy {
		return nil
	}
	return l.commitEnded(<-l.commits.done)
}

// commitAll commits everything, or returns an error.
func (l *ledger) commitAll() error {
	if err := l.settle(); err != nil {
		return err
	}
	for !l.allCommitted() {
		l.commits.start(l.nextJob())
		if err := l.settle(); err != nil {
			return err
		}
	}
	return nil
}

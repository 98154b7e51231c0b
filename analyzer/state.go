package analyzer

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// State is what an owner is doing.
type State int32

// States, in the order in which a healthy owner passes them. stateMemoryOnly stands beside stateRunning: the disk is full,
// so that decisions go on, but a restart would count from the last checkpoint in the log.
const (
	stateIdle State = iota
	stateOpening
	stateClaiming
	stateVerifying
	stateRestoring
	stateReconciling
	stateRunning
	stateMemoryOnly
	stateDraining
)

// States that others tell apart: Idle is that of an owner that has not started or has ended, Running that of one that counts
// and publishes, and whose store takes checkpoints.
const (
	Idle    = stateIdle
	Running = stateRunning
)

// String returns the state's name in lower case.
func (s State) String() string {
	return [...]string{"idle", "opening", "claiming", "verifying", "restoring", "reconciling", "running", "memory-only", "draining"}[s]
}

// Decides reports whether an owner in this state folds what comes and publishes decisions.
func (s State) Decides() bool { return s == stateRunning || s == stateMemoryOnly }

// lifecycle is what an owner is doing, and how far it is. Only the owner's goroutine changes it; any may read it.
type lifecycle struct {
	logger *slog.Logger
	state  atomic.Int32
	next   atomic.Int64 // the next offset to fold

	opened   time.Time    // when the owner began to open its store; zero once it decides
	restored atomic.Int64 // nanoseconds from then until the owner decided
}

func (l *lifecycle) current() State { return State(l.state.Load()) }

// enter changes the state, and logs it if it is another.
func (l *lifecycle) enter(s State) {
	switch {
	case s == stateOpening:
		l.opened = time.Now()
	case s.Decides() && !l.opened.IsZero():
		l.restored.Store(int64(time.Since(l.opened)))
		l.opened = time.Time{}
	}
	if State(l.state.Swap(int32(s))) != s {
		l.logger.Info("owner", "state", s.String(), "next", l.next.Load())
	}
}

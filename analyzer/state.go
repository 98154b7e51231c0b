package analyzer

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// State is what an owner is doing.
type State int32

// States, in the order in which a healthy owner passes them. stateMemoryOnly is in place of stateRunning while the disk is full: decisions
// go on, but after a restart all records since the last checkpoint must be folded again. stateKafkaAway is only shown, in place of one of
// these two, while no broker answers: the owner waits.
const (
	stateIdle State = iota
	stateOpening
	stateClaiming
	stateVerifying
	stateRestoring
	stateReconciling
	stateRunning
	stateMemoryOnly
	stateKafkaAway
	stateDraining
)

// States that other packages need. Idle: the owner has not started or has ended. Running: it counts and publishes, and its store takes
// checkpoints. KafkaAway: it would, but no broker answers.
const (
	Idle      = stateIdle
	Running   = stateRunning
	KafkaAway = stateKafkaAway
)

// String returns the state's name in lower case.
func (s State) String() string {
	return [...]string{"idle", "opening", "claiming", "verifying", "restoring", "reconciling", "running", "memory-only", "kafka-away", "draining"}[s]
}

// Decides reports whether an owner in this state folds what comes and publishes decisions.
func (s State) Decides() bool { return s == stateRunning || s == stateMemoryOnly }

// lifecycle is what an owner is doing, and how far it is. Only the owner's goroutine changes it; any goroutine may read its atomic fields.
type lifecycle struct {
	logger *slog.Logger
	state  atomic.Int32
	next   atomic.Int64 // the next offset to fold

	opened   time.Time    // when the owner began to open its store; zero once it decides
	restored atomic.Int64 // nanoseconds from the last opening of the store until the owner decided
}

func (l *lifecycle) current() State { return State(l.state.Load()) }

// enter changes the state, and logs it if it is a new one.
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

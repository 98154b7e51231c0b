package analyzer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/store"
)

// TestEachCloseHasItsLag in the histogram: one that was late long ago does not look late for ever. A clock that is behind
// the entry's makes no negative lag.
func TestEachCloseHasItsLag(t *testing.T) {
	n := newPublishCounters()
	now := time.Now().UnixNano()
	observed := 0
	for _, lag := range []time.Duration{90 * time.Second, 3 * time.Millisecond, 20 * time.Millisecond, -time.Second} {
		n.acknowledged(&batch{changed: 1, closes: []fold.Change{{At: now - int64(lag)}}}, outbox.NewInForce(1), now, func(fold.Change, int64) { observed++ })
	}
	n.acknowledged(&batch{repeated: 5}, outbox.NewInForce(1), now, nil)
	s := n.stats()
	if s.Lags.Count != 4 || s.Lags.Within[0.001] != 1 || s.Lags.Within[0.005] != 2 || s.Lags.Within[60] != 3 || s.Lags.Within[300] != 4 || observed != 4 {
		t.Errorf("got %+v, observed %d", s.Lags, observed)
	}
}

// TestALagOfLongAgoIsForgotten: after a stop the first closes come with the lag of the backlog, and it is not shown for ever.
func TestALagOfLongAgoIsForgotten(t *testing.T) {
	n := newPublishCounters()
	now := time.Now().UnixNano()
	closed := func(lag time.Duration) {
		n.acknowledged(&batch{changed: 1, closes: []fold.Change{{At: now - int64(lag)}}}, outbox.NewInForce(1), now, nil)
	}
	closed(time.Hour)
	now += int64(time.Minute)
	n.forgetLag(now)
	if got := n.stats().Lag; got != time.Hour {
		t.Errorf("got a lag of %v a minute after the close, want 1h", got)
	}
	now++
	n.forgetLag(now)
	if got := n.stats().Lag; got != 0 {
		t.Errorf("got a lag of %v, want none: nothing is known of now", got)
	}
	closed(time.Millisecond)
	if got := n.stats().Lag; got != time.Millisecond {
		t.Errorf("got a lag of %v, want that of the new close alone", got)
	}
}

// failing is a store that commits nothing.
type failing struct{ err error }

func (f failing) Commit(store.Checkpoint, []store.Change) error { return f.err }
func (failing) MaxChanges() int                                 { return 10 }
func (failing) MaxBytes() int                                   { return 1 << 20 }

// TestCheckpointsAreTimed, also those that fail: a slow disk shows.
func TestCheckpointsAreTimed(t *testing.T) {
	took := histogram.New(histogram.Seconds())
	for i, want := range []error{nil, store.ErrNoSpace} {
		c := newCommitter(failing{want}, func() error { return nil }, took)
		c.start(checkpointJob{})
		c.close()
		c.run()
		if r := <-c.done; !errors.Is(r.err, want) {
			t.Errorf("got %v, want %v", r.err, want)
		}
		if n := took.Snapshot().Count; n != uint64(i)+1 {
			t.Errorf("got %d checkpoints timed, want %d", n, i+1)
		}
	}
}

// TestTheLogIsDurableBeforeTheStore: a checkpoint waits for the log, and is not written if the log cannot be synced.
func TestTheLogIsDurableBeforeTheStore(t *testing.T) {
	broken := errors.New("the disk is broken")
	var order []string
	for _, synced := range []error{nil, broken} {
		c := newCommitter(noting{&order}, func() error { order = append(order, "sync"); return synced }, histogram.New(histogram.Seconds()))
		c.start(checkpointJob{at: store.Checkpoint{Next: 7}})
		c.close()
		c.run()
		if r := <-c.done; !errors.Is(r.err, synced) || synced != nil && r.unwritten.at.Next != 7 {
			t.Errorf("got %v, want %v, and the checkpoint left to do", r, synced)
		}
	}
	if got := fmt.Sprint(order); got != "[sync commit sync]" {
		t.Errorf("got %s, want each commit after a sync, and none after the one that failed", got)
	}
}

type noting struct{ order *[]string }

func (n noting) Commit(store.Checkpoint, []store.Change) error {
	*n.order = append(*n.order, "commit")
	return nil
}
func (noting) MaxChanges() int { return 10 }
func (noting) MaxBytes() int   { return 1 << 20 }

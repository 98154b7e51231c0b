package analyzer

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// TestTheAgeOfASnapshot is since it was begun. Before the first one it is since the owner was made, and it grows without bound while
// the topic of state takes none, which is when an alert is to be raised.
func TestTheAgeOfASnapshot(t *testing.T) {
	testenv.Long(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Snapshot = 10 * time.Minute
		w.start()
		w.prod.send(time.Now(), "a")
		time.Sleep(time.Hour)
		if s := w.owner.Stats(); s.Snapshots < 4 || s.SnapshotAge <= 0 || s.SnapshotAge > 21*time.Minute {
			t.Errorf("got age %v after %d snapshots, want two intervals at most", s.SnapshotAge, s.Snapshots)
		}
		w.log.SetDown(true)
		time.Sleep(3 * time.Hour)
		if s := w.owner.Stats(); s.SnapshotAge < 3*time.Hour {
			t.Errorf("got age %v, want 3 h or more: Kafka has taken none since", s.SnapshotAge)
		}
		w.log.SetDown(false)
		time.Sleep(25 * time.Minute)
		if s := w.owner.Stats(); s.SnapshotAge > 21*time.Minute {
			t.Errorf("got age %v, want that of a new one", s.SnapshotAge)
		}
		w.end()

		w.conf.State = ""
		w.start()
		time.Sleep(time.Hour)
		if s := w.owner.Stats(); s.SnapshotAge != 0 {
			t.Errorf("got age %v of an owner that writes none, want 0", s.SnapshotAge)
		}
		w.end()
	})
}

// TestSnapshotsComeSoonerUnderLoad: where the log may not grow, a cycle is over after so many bytes of messages.
func TestSnapshotsComeSoonerUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Snapshot, w.conf.SnapshotBy = time.Hour, 10_000
		w.start()
		time.Sleep(10 * time.Minute)
		quiet := w.owner.Stats().Snapshots
		for range 300 {
			w.prod.send(time.Now(), "a", "b", "c")
			time.Sleep(100 * time.Millisecond)
		}
		loaded := w.owner.Stats().Snapshots - quiet
		w.end()
		folded := w.owner.ledger.folded
		if want := uint64(folded / w.conf.SnapshotBy); quiet != 1 || want < 2 || loaded != want {
			t.Errorf("got %d snapshots in ten quiet minutes and %d during %d bytes, want 1 and %d", quiet, loaded, folded, want)
		}
	})
}

// TestSnapshotsDoNotWaitWhileTheLogHasNoRoom: neither the next cycle nor the rest of one that is spread over an hour. When all is in one, a
// further one would make no room.
func TestSnapshotsDoNotWaitWhileTheLogHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var full atomic.Bool
		w.conf.Snapshot, w.conf.SnapshotNow = time.Hour, full.Load
		w.start()
		time.Sleep(time.Minute)
		w.prod.send(time.Now(), manyCallers(3000)...)
		time.Sleep(time.Minute)
		full.Store(true)
		time.Sleep(30 * time.Minute)
		if n := w.owner.Stats().Snapshots; n != 2 {
			t.Errorf("no room after the first: got %d snapshots, want one more, and only one", n)
		}
		full.Store(false)
		time.Sleep(time.Hour) // the third has begun
		full.Store(true)
		time.Sleep(time.Second)
		if n := w.owner.Stats().Snapshots; n != 3 {
			t.Errorf("no room in the midst of the third: got %d snapshots, want 3", n)
		}
		w.end()
	})
}

// TestASnapshotThatIsLateWaitsForNoTick: a cycle that has fallen behind what was folded writes its pieces one after the other.
func TestASnapshotThatIsLateWaitsForNoTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Snapshot, w.conf.SnapshotBy = time.Hour, 1000
		w.start()
		time.Sleep(time.Minute)
		for range 2 { // the second time the cycle is under way
			for keys := range slices.Chunk(manyCallers(8*maxPiece), maxPiece) {
				w.prod.send(time.Now(), keys...)
			}
			time.Sleep(DefaultCheckpoint) // two ticks, each of which begins a cycle or writes a piece
		}
		time.Sleep(DefaultCheckpoint)
		if n := w.owner.Stats().Snapshots; n < 2 {
			t.Errorf("got %d snapshots, want one more, of %d callers", n, 8*maxPiece)
		}
		w.end()
	})
}

func manyCallers(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(i))
	}
	return keys
}

// TestHowLongARestoreTook is known once the owner decides, and stays; what comes after does not change it.
func TestHowLongARestoreTook(t *testing.T) {
	l := &lifecycle{logger: slog.New(slog.DiscardHandler)}
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []State{stateIdle, stateOpening, stateClaiming, stateVerifying, stateRestoring, stateReconciling} {
			l.enter(s)
			time.Sleep(time.Second)
			if got := l.restored.Load(); got != 0 {
				t.Errorf("%v: got %v, want nothing yet", s, time.Duration(got))
			}
		}
		for _, s := range []State{stateRunning, stateMemoryOnly, stateRunning, stateDraining, stateIdle} {
			l.enter(s)
			time.Sleep(time.Minute)
			if got := time.Duration(l.restored.Load()); got != 5*time.Second {
				t.Errorf("%v: got %v, want the 5 s from opening to running", s, got)
			}
		}
		l.enter(stateOpening)
		time.Sleep(2 * time.Second)
		l.enter(stateRunning)
		if got := time.Duration(l.restored.Load()); got != 2*time.Second {
			t.Errorf("got %v, want the 2 s of the last start", got)
		}
	})
}

// TestAnOwnerSaysWhatEachRuleDid: what it counted, who was refused, and which closures are in force.
func TestAnOwnerSaysWhatEachRuleDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.prod.send(time.Now(), "a", "a", "a", "b")
		time.Sleep(2 * time.Second)
		s := w.owner.Stats()
		if r := s.Fold.Rules[0]; r.Counted != 4 || r.Blocked != 0 || r.WouldBlock != 0 {
			t.Errorf("got %+v, want four counted", r)
		}
		if n := s.Publish.ClosedBy[outbox.RuleMode{Rule: "r", Mode: schemas.ModeEnforce}]; n != 1 || len(s.Publish.ClosedBy) != 1 {
			t.Errorf("got %v, want the closure of a", s.Publish.ClosedBy)
		}
		if s.Restore < 0 || s.Restore > time.Minute {
			t.Errorf("got a restore of %v", s.Restore)
		}
		time.Sleep(time.Minute)
		if n := len(w.owner.Stats().Publish.ClosedBy); n != 0 {
			t.Errorf("got %d rules with closures, want none: a's has ended", n)
		}
		w.end()
	})
}

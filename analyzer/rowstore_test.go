package analyzer

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store"
)

// again runs owners one after the other, as an analyzer does, until one ends without an error.
func (w *world) again() (failed []error) {
	w.t.Helper()
	for {
		synctest.Wait()
		select {
		case err := <-w.done:
			if err == nil {
				return failed
			}
			failed = append(failed, err)
			w.start()
		default:
			return failed
		}
	}
}

// A partition that comes to an analyzer whose disk is full is decided for at once, and its counts are what they were
// when there is room again.
func TestAnOwnerThatStartsOnAFullDiskDecides(t *testing.T) {
	for name, lost := range map[string]bool{"from a snapshot and the log": false, "from the log": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var full atomic.Bool
				w := newWorld(t)
				w.setup = func(o *Owner) { o.ledger.openStore = fullDisks(&full) }
				w.conf.Snapshot = 10 * time.Second
				w.start()
				w.prod.send(time.Now(), "a", "a", "b")
				time.Sleep(30 * time.Second)
				w.end()
				if lost {
					w.log.Recreate("state")
				}
				w.prod.send(time.Now(), "b")
				full.Store(true)
				w.start()
				time.Sleep(3 * time.Second)
				if got := w.owner.ledger.current(); got != stateMemoryOnly {
					t.Errorf("on a full disk: got %v, want %v", got, stateMemoryOnly)
				}
				w.prod.send(time.Now(), "a")
				time.Sleep(time.Second)
				if got := w.log.follow(t, time.Now().UnixNano()).closed; len(got) != 1 || got["r key:a"] == 0 {
					t.Errorf("closed: got %v, want key:a at its third request, of which two were counted before", got)
				}
				if failed := w.again(); len(failed) != 0 {
					t.Errorf("on a full disk: got %v, want one owner that goes on", failed)
				}
				full.Store(false)
				time.Sleep(3 * time.Second)
				if failed := w.again(); len(failed) != 1 || !errors.Is(failed[0], errRoom) {
					t.Errorf("with room again: got %v, want %v once", failed, errRoom)
				}
				time.Sleep(3 * time.Second)
				if got := w.owner.ledger.current(); got != stateRunning {
					t.Errorf("with room again: got %v, want %v", got, stateRunning)
				}
				w.prod.send(time.Now(), "b")
				time.Sleep(time.Second)
				if got := w.log.follow(t, time.Now().UnixNano()).closed; len(got) != 2 {
					t.Errorf("closed: got %v, want both", got)
				}
				w.end()
				w.wantCounts(map[string]int64{"a": 3, "b": 3})
			})
		})
	}
}

// Whoever stops an analyzer while its disk is full is told that not all is on disk; the log has it.
func TestAnOwnerThatEndsOnAFullDiskSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		w := newWorld(t)
		w.setup = func(o *Owner) { o.ledger.openStore = fullDisks(&full) }
		w.start()
		w.prod.send(time.Now(), "a")
		time.Sleep(3 * time.Second)
		w.stop()
		if err := <-w.done; !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("got %v, want %v", err, store.ErrNoSpace)
		}
		full.Store(false)
		w.start()
		time.Sleep(3 * time.Second)
		w.end()
		w.wantCounts(map[string]int64{"a": 1})
	})
}

// A store that can't be opened for another reason is no reason to count without one.
func TestOnlyAFullDiskIsCountedWithout(t *testing.T) {
	refused := errors.New("refused")
	if s, err := openStore("/dev/null/store", store.Options{}); s != nil || err == nil {
		t.Errorf("got %v and %v, want no store and an error", s, err)
	}
	for err, want := range map[error]error{refused: refused, store.ErrNoSpace: store.ErrNoSpace} {
		n := noStore{func() (rowStore, error) { return nil, err }}
		if got := n.Commit(store.Checkpoint{}, nil); !errors.Is(got, want) || errors.Is(got, errRoom) {
			t.Errorf("commit: got %v, want %v", got, want)
		}
	}
	n := noStore{func() (rowStore, error) { return noStore{}, nil }}
	if err := n.Commit(store.Checkpoint{}, nil); !errors.Is(err, errRoom) {
		t.Errorf("commit: got %v, want %v", err, errRoom)
	}
}

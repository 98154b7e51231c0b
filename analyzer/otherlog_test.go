package analyzer

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// grown returns what the producers of a new leader send: n frames of one request of a key each.
func (w *world) grown(n int, key string) (msgs []kafkaio.Message) {
	w.t.Helper()
	for i := range n {
		value := foldtest.Encode(w.t, foldtest.KeysFrame(schemas.ProducerID{9}, uint64(i+1), time.Now(), key))
		msgs = append(msgs, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
	}
	return msgs
}

// TestALogThatHasGrownAgainIsCountedAgain: requests[p] loses records that a running owner has counted, and has more than before when the
// owner looks again. The owner notices it before it counts the first new record. The next one counts the log that exists, and publishes
// the events of it.
func TestALogThatHasGrownAgainIsCountedAgain(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"an election, while a fetch waits": func(w *world) { w.log.Cut("requests", 0, 4, w.grown(20, "b")...) },
		"an election, while Kafka is away": func(w *world) { w.away(func() { w.log.Cut("requests", 0, 4, w.grown(20, "b")...) }) },
		"an election that leaves nothing":  func(w *world) { w.log.Cut("requests", 0, 0, w.grown(20, "b")...) },
		"made anew, while a fetch waits":   func(w *world) { w.log.Recreate("requests"); w.log.Append("requests", 0, w.grown(20, "b")...) },
		"made anew, while Kafka is away": func(w *world) {
			w.away(func() { w.log.Recreate("requests"); w.log.Append("requests", 0, w.grown(20, "b")...) })
		},
		"an election, before a checkpoint": func(w *world) {
			w.prod.send(time.Now(), "a", "c", "c", "c")
			synctest.Wait()
			w.log.Cut("requests", 0, 10, w.grown(20, "b")...)
		},
		"an election, as long as it was then": func(w *world) {
			w.log.Cut("requests", 0, 4, w.grown(6, "b")...)
			time.Sleep(time.Second)
			w.log.Append("requests", 0, w.grown(20, "b")[6:]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.conf.Snapshot = 5 * time.Second
				w.start()
				for range 10 {
					w.prod.send(time.Now(), "a")
					time.Sleep(time.Second)
				}
				time.Sleep(123 * time.Millisecond) // a fetch waits now
				change(w)
				if err := <-w.done; !errors.Is(err, errOtherLog) || !errors.Is(err, kafkaio.ErrTruncated) {
					t.Fatalf("got %v, want %v", err, errOtherLog)
				}
				w.stop()
				w.conf.otherLog = true // as an Analyzer says to the next owner
				w.atRest()
				w.wantExact()
				want := w.elsewhere(w.log.clone())
				want.wipe()
				want.log.Recreate("state")
				want.atRest()
				if got, want := w.checkpoint(), want.checkpoint(); got.Digest != want.Digest || got.Next != want.Next {
					t.Errorf("got %+v, want what the log alone gives: %+v", got, want)
				}
				got, _ := eventsIn(t, w.log, "events")
				for id, e := range undisturbed(t, w.conf.Rules, w.conf.Fold, w.log.Records("requests", 0)) {
					if _, is := got[id]; !is {
						t.Errorf("missing: %s", e.Encode())
					}
				}
			})
		})
	}
}

// away makes a change while nobody reaches Kafka.
func (w *world) away(change func()) {
	w.log.SetDown(true)
	time.Sleep(2 * time.Second)
	change()
	w.log.SetDown(false)
}

// TestASnapshotWithRowsOfAnotherLogIsNotUsed: its begin is of this log, but some of its rows count records that a new leader did not have.
func TestASnapshotWithRowsOfAnotherLogIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		keys := make([]string, 2000)
		for i := range keys {
			keys[i] = fmt.Sprint("key-", i)
		}
		w.prod.send(time.Now(), keys...)
		w.conf.Snapshot = 4 * time.Second
		w.start()
		for w.log.ends(t) < 2 { // the second cycle lasts for some seconds, in which records come
			w.prod.send(time.Now(), keys[len(keys)-1])
			time.Sleep(100 * time.Millisecond)
		}
		w.end()
		var begin, last int64
		for _, r := range w.log.state(t) {
			if b := r.GetBegin(); b != nil {
				begin = b.GetOffset()
			}
			last = max(last, r.GetRow().GetNext())
		}
		cut := (begin + last) / 2
		if cut <= begin || cut >= last {
			t.Fatalf("the snapshot begins at %d and ends at %d, want records in between", begin, last)
		}
		w.log.Cut("requests", 0, cut, w.grown(int(last), "b")...)
		other := w.elsewhere(w.log)
		other.atRest()
		other.wantExact()
		want := w.elsewhere(w.log.clone())
		want.log.Recreate("state")
		want.atRest()
		if got, want := other.checkpoint(), want.checkpoint(); got.Digest != want.Digest {
			t.Errorf("got %+v, want what the log alone gives: %+v", got, want)
		}
	})
}

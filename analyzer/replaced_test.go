package analyzer

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// An analyzer sleeps until another one has owned its partition, and wakes up as a member of the group again, before it has noticed
// that. It then applies control records where they do not count: the other owner has applied the first one elsewhere. Whoever comes
// next must not go on from its store.
func TestAReplacedOwnerThatAppliedRecordsElsewhereDoesNotGoOnFromItsStore(t *testing.T) {
	t.Run("with a snapshot", func(t *testing.T) { wakesUpReplaced(t, true) })
	t.Run("with the log alone", func(t *testing.T) { wakesUpReplaced(t, false) })
}

func wakesUpReplaced(t *testing.T, snapshot bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var asleep, cut atomic.Bool
		w := newWorld(t)
		w.conf.Lease = func(time.Time) bool { return !asleep.Load() }
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(3 * time.Second)
		asleep.Store(true)
		w.decide(1, schemas.ControlReset, "a")

		other := w.elsewhere(w.log)
		other.conf.Lease = nil
		other.atRest() // applies the record before offset 1

		w.prod.send(time.Now(), "a")
		time.Sleep(time.Second)
		cut.Store(true)
		w.log.SetFault(produces("decisions", func() kafkaiotest.Fault {
			if cut.Load() {
				return kafkaiotest.LostRequest()
			}
			return kafkaiotest.Fault{}
		}))
		asleep.Store(false)
		time.Sleep(time.Second)
		w.decide(2, schemas.ControlClose, "b")
		time.Sleep(time.Second)
		if s := w.owner.Stats().Control; s.Applied[schemas.ControlReset] != 1 || s.Applied[schemas.ControlClose] != 1 {
			t.Fatalf("got %+v, want both records applied by the owner that was replaced: otherwise nothing is tried", s)
		}
		cut.Store(false)
		select {
		case err := <-w.done:
			if !errors.Is(err, errFenced) {
				t.Fatalf("got %v, want %v", err, errFenced)
			}
		case <-time.After(time.Minute):
			t.Fatal("got it still running, want it to notice that it was replaced")
		}
		if !snapshot {
			w.spoilState(func(r *pb.StateRecord) bool { return r.GetEnd() != nil })
		}
		w.atRest()
		w.wantCounts(map[string]int64{"a": 1}) // the reset was before offset 1
		w.wantExactBy("state")
	})
}

// The same, but the other owner has applied more at once, and behind all that the store of the first one holds.
func TestAStoreIsNotUsedWhoseRecordsWereAppliedLaterWithOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut, hasty atomic.Bool
		w := newWorld(t)
		w.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			switch {
			case c.Op != kafkaiotest.OpProduce:
			case cut.Load() && (c.Topic == "decisions" || c.Topic == "state"), hasty.Load() && c.Topic == "state" && !isPlace(c.Messages[0]):
				return kafkaiotest.LostRequest()
			}
			return kafkaiotest.Fault{}
		})
		w.start()
		w.prod.send(time.Now(), "a")
		time.Sleep(3 * time.Second)
		cut.Store(true) // it can tell nobody
		w.decide(1, schemas.ControlReset, "a")
		time.Sleep(time.Second)
		w.end()
		cut.Store(false)

		hasty.Store(true) // the other one ends before it has a snapshot
		w.prod.send(time.Now(), "a", "a")
		w.decide(2, schemas.ControlClose, "b")
		other := w.elsewhere(w.log)
		other.atRest() // applies both before offset 2

		hasty.Store(false)
		w.atRest()
		w.wantCounts(map[string]int64{})
		w.wantExactBy("state")
	})
}

// isPlace reports whether a message to state[p] says where control records were applied.
func isPlace(m kafkaio.Message) bool {
	rec, err := pb.DecodeState(m.Value)
	return err == nil && rec.GetControl() != nil
}

// A store is used only if its last place was noted, with the same ones before it; places that follow must lie behind it.
func TestHowAStoreAgreesWithThePlacesThatWereNoted(t *testing.T) {
	beat := schemas.Heartbeat{Epoch: 9, Watermark: 200, Control: 6}
	at := func(next, control int64, place schemas.ControlPlace) (c store.Checkpoint) {
		c.Next, c.Control, c.Place, c.Epoch = next, control, place, 7
		return c
	}
	place := func(from, first, next int64, chain uint64) schemas.ControlPlace {
		return schemas.ControlPlace{From: from, First: first, Next: next, Chain: chain}
	}
	for _, c := range []struct {
		name   string
		at     store.Checkpoint
		places []schemas.ControlPlace
		want   standing
	}{
		{"the same place", at(150, 6, place(100, 5, 6, 1)), []schemas.ControlPlace{place(100, 5, 6, 1)}, agrees},
		{"the same place, and earlier ones", at(150, 6, place(100, 5, 6, 2)), []schemas.ControlPlace{place(90, 3, 5, 1), place(100, 5, 6, 2)}, agrees},
		{"the same place, behind others", at(150, 6, place(100, 5, 6, 1)), []schemas.ControlPlace{place(100, 5, 6, 2)}, contradicted},
		{"another place", at(150, 6, place(100, 5, 6, 1)), []schemas.ControlPlace{place(120, 5, 6, 1)}, contradicted},
		{"another place, with more records", at(110, 6, place(100, 5, 6, 1)), []schemas.ControlPlace{place(120, 5, 8, 1)}, contradicted},
		{"passed over", at(150, 5, schemas.ControlPlace{}), []schemas.ControlPlace{place(120, 5, 6, 1)}, contradicted},
		{"still to come", at(110, 5, schemas.ControlPlace{}), []schemas.ControlPlace{place(120, 5, 6, 1)}, agrees},
		{"at the next offset", at(120, 5, schemas.ControlPlace{}), []schemas.ControlPlace{place(120, 5, 6, 1)}, agrees},
		{"others went on without", at(150, 7, place(100, 6, 7, 1)), nil, contradicted},
		{"others have not come so far", at(300, 7, place(250, 6, 7, 1)), nil, unproven},
		{"others have noted an earlier one alone", at(300, 7, place(250, 6, 7, 2)), []schemas.ControlPlace{place(100, 5, 6, 1)}, unproven},
	} {
		if got := standingOf(&c.at, c.places, &beat); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// While state[p] is slow, records wait until the place of those before them is noted: a process that dies then has no more than one
// place that only its store knows. If state[p] stays away, a person can act all the same.
func TestOnePlaceAtMostIsNotNoted(t *testing.T) {
	for name, away := range map[string]bool{"slow": false, "away": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start()
				w.prod.send(time.Now(), "a")
				time.Sleep(3 * time.Second)
				var cut atomic.Bool
				cut.Store(true)
				w.log.SetFault(produces("state", func() kafkaiotest.Fault {
					if cut.Load() {
						return kafkaiotest.LostRequest()
					}
					return kafkaiotest.Fault{}
				}))
				w.decide(1, schemas.ControlClose, "b")
				time.Sleep(3 * time.Second)
				w.prod.send(time.Now(), "a")
				time.Sleep(time.Second)
				w.decide(2, schemas.ControlClose, "c")
				time.Sleep(10 * time.Second)
				if n := w.owner.Stats().Control.Applied[schemas.ControlClose]; n != 1 {
					t.Errorf("got %d records applied, want the second one to wait", n)
				}
				if away {
					time.Sleep(notedWait)
				} else {
					cut.Store(false)
					time.Sleep(5 * time.Second)
				}
				if n := w.owner.Stats().Control.Applied[schemas.ControlClose]; n != 2 {
					t.Errorf("got %d records applied, want both", n)
				}
				cut.Store(false)
				time.Sleep(5 * time.Second)
				w.end()
				w.wipe() // state[p] alone says where
				w.atRest()
				if n := w.owner.Stats().Control.Guessed; n != 0 {
					t.Errorf("got %d records applied by their time, want their places known", n)
				}
				w.wantExactBy("state")
			})
		})
	}
}

// The other owner has applied a record, said so in a heartbeat, and ended before it could note the place. The one that was asleep has
// counted beyond that place without the record, so it must not go on from its store.
func TestAStoreThatHasPassedOverARecordIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asleep, cut atomic.Bool
		w := newWorld(t)
		w.conf.Lease = func(time.Time) bool { return !asleep.Load() }
		w.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if cut.Load() && c.Op == kafkaiotest.OpProduce && c.Topic == "state" && (!isPlace(c.Messages[0]) || len(w.log.Records("control", 0)) > 0) {
				return kafkaiotest.LostRequest()
			}
			return kafkaiotest.Fault{}
		})
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(3 * time.Second)
		asleep.Store(true)
		cut.Store(true)
		other := w.elsewhere(w.log)
		other.conf.Lease = nil
		other.start()
		time.Sleep(time.Second)
		other.decide(1, schemas.ControlReset, "a") // before offset 1
		time.Sleep(time.Second)
		other.end()
		w.prod.send(time.Now(), "a") // counted by the one that is asleep
		time.Sleep(time.Second)
		w.end()
		cut.Store(false)
		asleep.Store(false)
		w.atRest()
		w.wantCounts(map[string]int64{"a": 1})
		w.wantExactBy("state")
	})
}

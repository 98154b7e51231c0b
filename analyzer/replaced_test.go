package analyzer

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// An analyzer sleeps until another one has owned its partition, and wakes up as a member of the group again. Meanwhile it has counted
// beyond a place of the other owner. It must apply nothing, and whoever comes next must not go on from its store.
func TestAReplacedOwnerThatAppliedRecordsElsewhereDoesNotGoOnFromItsStore(t *testing.T) {
	t.Run("with a snapshot", func(t *testing.T) { wakesUpReplaced(t, true) })
	t.Run("with the log alone", func(t *testing.T) { wakesUpReplaced(t, false) })
}

func wakesUpReplaced(t *testing.T, snapshot bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var asleep atomic.Bool
		var late lateLog
		w := newWorld(t)
		late.testLog = w.log
		w.conf.Lease = func(time.Time) bool { return !asleep.Load() }
		w.on = &late
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(3 * time.Second)
		asleep.Store(true)
		late.blind.Store(true) // to the control topic
		w.decide(1, schemas.ControlReset, "a")

		other := w.elsewhere(w.log)
		other.conf.Lease = nil
		other.atRest() // applies the record before offset 1

		w.prod.send(time.Now(), "a")
		time.Sleep(2 * time.Second)
		if got := w.owner.Stats(); got.Committed != 2 || got.Control.Applied[schemas.ControlReset] != 0 {
			t.Fatalf("got %+v, want it to count beyond the place: otherwise nothing is tried", got)
		}
		asleep.Store(false)
		late.blind.Store(false)
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
		w.wantExact()
		w.wantMovedAside(1)
	})
}

// wantMovedAside wants so many stores beside the one in use.
func (w *world) wantMovedAside(n int) {
	w.t.Helper()
	if aside, err := filepath.Glob(w.conf.Dir + ".broken-*"); err != nil || len(aside) != n {
		w.t.Errorf("moved aside: got %v, %v, want %d", aside, err, n)
	}
}

// lateLog is a log whose control topic has nothing new for one who is blind, and takes no record of one who is dumb.
type lateLog struct {
	*testLog

	blind, dumb atomic.Bool
}

func (l *lateLog) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	if r.Topic == "control" && l.blind.Load() {
		if err := kafkaio.Sleep(ctx, max(r.MaxWait, time.Millisecond)); err != nil {
			return kafkaio.Batch{}, err
		}
		return kafkaio.Batch{Next: r.Offset, HighWater: r.Offset}, nil
	}
	b, err := l.testLog.Fetch(ctx, r)
	if r.Topic == "control" && l.blind.Load() { // it was asked before
		return kafkaio.Batch{Next: r.Offset, HighWater: r.Offset}, nil
	}
	return b, err
}

func (l *lateLog) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (int64, error) {
	if topic == "control" && l.dumb.Load() {
		return kafkaiotestUnsent(topic)
	}
	return l.testLog.Produce(ctx, topic, partition, msgs...)
}

func kafkaiotestUnsent(topic string) (int64, error) {
	return -1, &kafkaio.RequestError{Op: "append to", Topic: topic, Outcome: kafkaio.Unsent, Err: errInjected}
}

// An owner is replaced between the place that it has appended and its reading it back. If the other's take came first, the place
// does not count, and the owner applies nothing. If it came later, the place counts: the other owner applies it where it says.
func TestAnOwnerIsReplacedWhileItsPlaceIsOnItsWay(t *testing.T) {
	for name, first := range map[string]bool{"the take is first": true, "the place is first": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var late lateLog
				w := newWorld(t)
				late.testLog = w.log
				w.on = &late
				w.start()
				w.prod.send(time.Now(), "a", "a")
				time.Sleep(3 * time.Second)
				w.decideUnread(&late, 1, schemas.ControlReset, "a")
				// The owner has read the record. Its place is appended, and it can read no further.
				w.awaitPlaces(2)
				if first { // as if the take had overtaken it
					w.log.Edit("control", 0, func(records []kafkaio.Record) []kafkaio.Record {
						n := len(records)
						take := mustControl(t, &schemas.Control{Action: schemas.ControlTake, Author: "other", Topic: "requests", Epoch: w.epoch() + 1})
						place := records[n-1].Value
						records[n-1].Value = take
						last := records[n-1]
						last.Offset, last.Value = last.Offset+1, place
						return append(records, last)
					})
				}
				other := w.elsewhere(w.log)
				w.prod.send(time.Now(), "a")
				other.start()
				time.Sleep(3 * time.Second)
				late.blind.Store(false)
				if err := <-w.done; !errors.Is(err, errFenced) {
					t.Errorf("got %v, want %v", err, errFenced)
				}
				other.end()
				want := map[string]int64{"a": 1} // the reset was before offset 1
				if first {
					want = map[string]int64{} // and now behind it
				}
				other.wantCounts(want)
				other.wantExact()
				w.atRest() // with the store of the one that was replaced
				w.wantCounts(want)
				w.wantExact()
			})
		})
	}
}

// decideUnread lets the owner read a decision, and nothing that comes behind it.
func (w *world) decideUnread(late *lateLog, id byte, a schemas.ControlAction, key string) {
	w.t.Helper()
	w.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
		if c.Op == kafkaiotest.OpProduce && c.Topic == "control" && isPlace(c.Messages[0]) {
			late.blind.Store(true)
		}
		return kafkaiotest.Fault{}
	})
	w.decide(id, a, key)
	time.Sleep(10 * time.Millisecond)
	w.log.SetFault(nil)
}

// awaitPlaces waits until there are so many.
func (w *world) awaitPlaces(n int) {
	w.t.Helper()
	for range 1000 {
		if len(w.places()) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("got %d places, want %d", len(w.places()), n)
}

// isPlace reports whether a message to the control topic is a place.
func isPlace(m kafkaio.Message) bool {
	c, err := pb.DecodeControl(m.Value)
	return err == nil && c.Action == schemas.ControlPlace
}

func mustControl(t *testing.T, c *schemas.Control) []byte {
	t.Helper()
	b, err := pb.AppendControl(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An owner that can append no place applies nothing, and counts on. When it can, what waits shares one place.
func TestWhatCannotBePlacedIsNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late lateLog
		w := newWorld(t)
		late.testLog = w.log
		w.on = &late
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(3 * time.Second)
		late.dumb.Store(true)
		w.decide(1, schemas.ControlReset, "a")
		w.decide(2, schemas.ControlClose, "b")
		time.Sleep(3 * time.Second)
		w.prod.send(time.Now(), "a")
		time.Sleep(3 * time.Second)
		if s := w.owner.Stats(); s.Next != 2 || s.Control.Applied[schemas.ControlReset] != 0 || s.Control.Trouble == nil {
			t.Errorf("got %+v, want it to count on, and to say why nothing is applied", s)
		}
		late.dumb.Store(false)
		time.Sleep(3 * time.Second)
		w.wantClosed("", schemas.ControlRule+" key:b")
		if places := w.places(); len(places) != 2 || places[1].Before != 2 {
			t.Errorf("got %+v, want one place before offset 2", places)
		}
		w.end()
		w.wantCounts(map[string]int64{})
		w.wantExact()
	})
}

// The answer to a place is lost, again and again. The owner folds nothing until it knows that the place is in the topic: there it may
// stand several times, and counts once.
func TestAPlaceThatStandsTwiceCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(3 * time.Second)
		lost := 3
		w.log.SetFault(produces("control", func() kafkaiotest.Fault {
			if lost--; lost >= 0 {
				return kafkaiotest.LostAnswer()
			}
			return kafkaiotest.Fault{}
		}))
		old := w.log.Records("control", 0)
		w.log.Append("control", 0, kafkaio.Message{Value: mustControl(t, newReset("a"))})
		time.Sleep(10 * time.Millisecond)
		w.prod.send(time.Now(), "a")
		time.Sleep(5 * time.Second)
		w.prod.send(time.Now(), "a")
		for _, r := range old { // copies that come late
			w.log.Append("control", 0, kafkaio.Message{Value: r.Value})
		}
		copies := w.log.Records("control", 0)
		w.log.Append("control", 0, kafkaio.Message{Value: copies[len(old)+1].Value})
		time.Sleep(3 * time.Second)
		w.end()
		if n := len(w.places()); n != 7 {
			t.Errorf("got %d places, want 1, 4 copies of another one, and 2 late ones", n)
		}
		w.wantCounts(map[string]int64{"a": 2})
		w.wantExact()
		w.wipe()
		w.log.Recreate("state")
		w.atRest()
		w.wantCounts(map[string]int64{"a": 2})
		w.wantExact()
	})
}

// newReset returns a record that resets a caller of kind key.
func newReset(key string) *schemas.Control {
	return &schemas.Control{
		ID: schemas.ControlID{77}, Time: time.Now().UnixNano(), Author: "ann", Reason: "ticket 4711", Action: schemas.ControlReset,
		Caller: schemas.Caller{Kind: "key", ID: key},
	}
}

// An owner dies when its place is in the topic, and nothing of it is applied. The next one applies it where it stands.
func TestAPlaceOfAnOwnerThatDiesCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(3 * time.Second)
		w.end()
		last := w.places()[len(w.places())-1]
		at, err := w.log.Produce(t.Context(), "control", 0, kafkaio.Message{Value: mustControl(t, newReset("a"))})
		if err != nil {
			t.Fatal(err)
		}
		last.Seq, last.Before, last.UpTo = last.Seq+1, 1, at+1
		w.log.Append("control", 0, kafkaio.Message{Value: mustControl(t, &last)})
		w.prod.send(time.Now(), "a")
		w.atRest()
		w.wantCounts(map[string]int64{"a": 1})
		w.wantExact()
		w.wantMovedAside(0)
	})
}

// requests[p] loses its end, beyond which a place stands. It applies where the next owner begins, and everybody agrees.
func TestAPlaceBeyondTheEndOfTheLogAppliesAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, "version: 1\nrules:\n  - {name: r, callers: key, limit: 1000, window: month}\n")
		w.start()
		for range 10 {
			w.prod.send(time.Now(), "a")
		}
		time.Sleep(3 * time.Second)
		w.decide(1, schemas.ControlReset, "a") // before offset 10
		time.Sleep(3 * time.Second)
		w.end()
		w.log.Cut("requests", 0, 4)
		w.prod.id = schemas.ProducerID{2}
		w.atRest()
		w.wantCounts(map[string]int64{})
		for range 20 {
			w.prod.send(time.Now(), "a")
		}
		w.atRest()
		w.wantCounts(map[string]int64{"a": 20})
		w.wantExact()
		w.wipe()
		w.log.Recreate("state")
		w.atRest()
		w.wantCounts(map[string]int64{"a": 20})
		w.wantExact()
	})
}

// Two analyzers with different files take the partition from each other, as in a rolling change. What is counted is the same for
// whoever starts from the log alone, and an old file of one that was replaced does nothing.
func TestTwoFilesInARollingChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, oneRule)
		other := w.elsewhere(w.log)
		other.conf.Rules = mustRules(t, twoRules)
		for range 4 {
			for _, o := range []*world{w, other} {
				w.prod.send(time.Now(), "a")
				o.start()
				time.Sleep(3 * time.Second)
				w.prod.send(time.Now(), "a", "b")
				time.Sleep(time.Second)
				o.end()
			}
		}
		other.owner.SetRules(mustRules(t, fiveAMinute)) // it has ended
		w.conf.Rules = other.conf.Rules
		w.atRest()
		w.wantCounts(map[string]int64{"a": 16, "b": 8})
		if got := w.counts("late"); got["a"] != 1 || got["b"] != 1 { // as the last file says: the one between has no such rule
			t.Errorf("got %v counted by the rule of one file, want what came since that file was in force", got)
		}
		w.wantExact()
		want := w.checkpoint()
		alone := w.elsewhere(w.log.clone())
		alone.conf.Rules = other.conf.Rules
		alone.log.Recreate("state")
		alone.atRest()
		if got := alone.checkpoint(); got.Digest != want.Digest || got.Rows != want.Rows {
			t.Errorf("from the log alone: got %+v, want %+v", got, want)
		}
	})
}

// The control topic is away when an owner starts whose store is its own: it counts on after a moment, and takes the partition over when
// the topic is back. One without a store waits.
func TestTheControlTopicIsAwayAtTheStart(t *testing.T) {
	t.Parallel()
	for name, wiped := range map[string]bool{"with a store": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.prod.send(time.Now(), "a")
				w.atRest()
				if wiped {
					w.wipe()
				}
				var away atomic.Bool
				away.Store(true)
				w.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
					if away.Load() && c.Topic == "control" {
						return kafkaiotest.Down()
					}
					return kafkaiotest.Fault{}
				})
				w.prod.send(time.Now(), "a")
				w.start()
				time.Sleep(5 * time.Second)
				if s := w.owner.Stats(); (s.State == Running) == wiped || s.Control.Trouble == nil {
					t.Errorf("got %v, trouble %v", s.State, s.Control.Trouble)
				}
				w.prod.send(time.Now(), "a")
				w.owner.SetRules(mustRules(t, fiveAMinute))
				time.Sleep(time.Minute)
				away.Store(false)
				time.Sleep(10 * time.Second)
				w.decide(1, schemas.ControlClose, "b")
				time.Sleep(time.Second)
				w.wantClosed("when it is back", schemas.ControlRule+" key:b")
				w.end()
				w.conf.Rules = mustRules(t, fiveAMinute)
				w.wantCounts(map[string]int64{"a": 3})
				w.wantExact()
			})
		})
	}
}

// An owner counted without the control topic, and when that was back it held a place that the owner had passed over: of its own, from
// before it was started. What it counted is given up.
func TestWhatWasCountedWithoutAPlaceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prod.send(time.Now(), "a")
		w.atRest()
		last := w.places()[len(w.places())-1]
		at, err := w.log.Produce(t.Context(), "control", 0, kafkaio.Message{Value: mustControl(t, newReset("a"))})
		if err != nil {
			t.Fatal(err)
		}
		last.Seq, last.Before, last.UpTo = last.Seq+1, 1, at+1
		w.log.Append("control", 0, kafkaio.Message{Value: mustControl(t, &last)})
		var away atomic.Bool
		away.Store(true)
		w.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if away.Load() && c.Topic == "control" {
				return kafkaiotest.Down()
			}
			return kafkaiotest.Fault{}
		})
		w.prod.send(time.Now(), "a")
		w.start()
		time.Sleep(5 * time.Second)
		away.Store(false)
		if err := <-w.done; !errors.Is(err, errReplaced) {
			t.Fatalf("got %v, want %v", err, errReplaced)
		}
		w.atRest()
		w.wantCounts(map[string]int64{"a": 1})
		w.wantExact()
		w.wantMovedAside(1)
	})
}

// A partition comes back to an analyzer whose store is old, and the control topic that would say so was made anew meanwhile: what people
// have decided since is in the last snapshot.
func TestAnOldStoreGivesWayToTheSnapshotIfTheControlTopicWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Snapshot = 10 * time.Second
		w.start()
		w.prod.send(time.Now(), "a")
		w.decide(1, schemas.ControlClose, "b")
		time.Sleep(30 * time.Second)
		w.end()
		other := w.elsewhere(w.log)
		other.start()
		other.decide(2, schemas.ControlClose, "c")
		time.Sleep(30 * time.Second)
		other.end()
		w.log.Recreate("control")
		w.start()
		time.Sleep(3 * time.Second)
		w.wantClosed("", schemas.ControlRule+" key:b", schemas.ControlRule+" key:c")
		w.end()
		w.wantCounts(map[string]int64{"a": 1})
	})
}

// A partition of another topic of requests has its own order, also with the same control topic: that is what repartition makes.
func TestAnotherTopicOfRequestsBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.log.Create(1, "requests2", "decisions2", "state2", "events2")
		w.start()
		w.prod.send(time.Now(), "a")
		time.Sleep(3 * time.Second)
		w.decide(1, schemas.ControlClose, "b")
		time.Sleep(time.Second)
		w.end()
		other := w.elsewhere(w.log)
		other.conf.Requests, other.conf.Decisions, other.conf.State, other.conf.Events = "requests2", "decisions2", "state2", "events2"
		other.atRest()
		places := w.places()
		if p := places[len(places)-1]; p.Topic != "requests2" || p.Before != 0 || p.UpTo < w.controlEnd()-4 {
			t.Errorf("got %+v, want the first place before all records", p)
		}
		if n := other.remembered(); n != 1 {
			t.Errorf("got %d records in force, want the one that is", n)
		}
		if o, _, _, err := control.Read(t.Context(), w.log, control.NewTopic("control", "requests", schemas.PartitionKey{}, 0, 1), control.Mark{}, nil); err != nil || len(o.Steps()) != 2 {
			t.Errorf("got %+v, %v, want what the first topic had", o, err)
		}
	})
}

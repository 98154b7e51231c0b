package analyzer

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// decide writes a decision about a caller of kind key, for an hour, and returns its offset. The first byte of the id is given.
func (w *world) decide(id byte, a schemas.ControlAction, key string) int64 {
	w.t.Helper()
	now := time.Now()
	c := schemas.Control{
		ID: schemas.ControlID{id}, Time: now.UnixNano(), Author: "ann", Reason: "ticket 4711", Action: a,
		Caller: schemas.Caller{Kind: "key", ID: key}, Until: now.Add(time.Hour).UnixNano(), Target: schemas.ControlID{id - 1},
	}
	offset, err := NewControlWriter(w.log, "control", nil).Append(w.t.Context(), &c)
	if err != nil {
		w.t.Fatal(err)
	}
	return offset
}

// wantClosed wants that gates which start now believe that these are closed.
func (w *world) wantClosed(when string, want ...string) {
	w.t.Helper()
	synctest.Wait() // what is to happen by now may happen at this very instant
	got := w.log.follow(w.t, time.Now().UnixNano()).closed
	for _, key := range want {
		if _, ok := got[key]; !ok {
			w.t.Errorf("%s: got closed %v, want %q", when, got, key)
		}
	}
	if len(got) != len(want) {
		w.t.Errorf("%s: got closed %v, want %q and no others", when, got, want)
	}
}

func TestWhatAPersonDecidesIsPublishedWithAHeartbeatBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.API = "192.0.2.7:9096"
		w.start()
		w.prod.send(time.Now(), "a", "a", "a")
		time.Sleep(1300 * time.Millisecond) // between two heartbeats
		before := len(w.log.decisions(t))
		offset := w.decide(1, schemas.ControlOpen, "a")
		w.decide(2, schemas.ControlClose, "b")
		time.Sleep(50 * time.Millisecond)
		w.wantClosed("at once", schemas.ControlRule+" key:b")
		opened, known := false, false
		for _, r := range w.log.decisions(t)[before:] {
			switch {
			case r.Decision != nil && r.Decision.Caller.ID == "a":
				opened = true
				if d := r.Decision; d.Until > d.CloseAt {
					t.Errorf("got %+v, want it open without the delay of gates", d)
				}
			case r.Heartbeat != nil && r.Heartbeat.Control > offset:
				known = true
				if !opened || r.Heartbeat.API != "192.0.2.7:9096" {
					t.Errorf("got heartbeat %+v, opened before it: %v; want it behind the decision, with the address", r.Heartbeat, opened)
				}
			}
		}
		if !opened || !known {
			t.Errorf("got opened %v, heartbeat %v within 50 ms, want both", opened, known)
		}
		w.end()
		// The two records have one place, or one each if the owner read the first before the second was there.
		places, at, end := w.places(), w.checkpoint(), w.controlEnd()
		if len(places) < 2 || len(places) > 3 || places[len(places)-1].Before != 1 || at.Placed != end {
			t.Errorf("got checkpoint %+v and places %+v, want the last one before offset 1, and %d in the store", at, places, end)
		}
	})
}

// crowdedLog lets something happen when an owner appends a place, before the place is in the topic.
type crowdedLog struct {
	*testLog

	atPlace func()
}

func (l *crowdedLog) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (int64, error) {
	if topic == "control" && isPlace(msgs[0]) && l.atPlace != nil {
		f := l.atPlace
		l.atPlace = nil
		f()
	}
	return l.testLog.Produce(ctx, topic, partition, msgs...)
}

func TestADecisionThatOvertakesAPlaceIsPublishedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		crowded := &crowdedLog{testLog: w.log}
		w.on = crowded
		w.start()
		time.Sleep(1300 * time.Millisecond) // between two heartbeats
		synctest.Wait()
		crowded.atPlace = func() { w.decide(2, schemas.ControlClose, "b") }
		w.decide(1, schemas.ControlClose, "a")
		time.Sleep(50 * time.Millisecond)
		w.wantClosed("at once", schemas.ControlRule+" key:a", schemas.ControlRule+" key:b")
		if n := len(w.places()); n != 3 {
			t.Errorf("got %d places, want one of the start and one for each decision", n)
		}
		w.end()
	})
}

// However many decisions come, each while the one before is placed, the log is counted between two of them.
func TestAStreamOfDecisionsDoesNotHoldUpTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		crowded := &crowdedLog{testLog: w.log}
		w.on = crowded
		w.start()
		time.Sleep(1300 * time.Millisecond)
		synctest.Wait()
		n := byte(1)
		var more func()
		more = func() {
			if n++; n == 200 {
				return
			}
			if n == 2 {
				w.prod.send(time.Now(), "a")
			}
			w.decide(n, schemas.ControlClose, "b")
			crowded.atPlace = more
			time.Sleep(time.Millisecond) // so that the request is fetched
		}
		crowded.atPlace = more
		w.decide(1, schemas.ControlClose, "b")
		time.Sleep(time.Second)
		synctest.Wait()
		if places := w.places(); len(places) < 200 || places[len(places)-2].Before != 1 {
			t.Errorf("got %d places, and %+v before the last one, want the request counted by then", len(places), places[len(places)-2])
		}
		w.end()
	})
}

func TestRecordsAboutOtherPartitionsOnlyMoveTheOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Fold.Partitions = 2
		other := "x0"
		for schemas.Partition(schemas.DefaultPartitionKey().Hash("key", other), 2) == 0 {
			other += "x"
		}
		w.start()
		time.Sleep(time.Second)
		w.decide(1, schemas.ControlClose, other)
		time.Sleep(3 * time.Second)
		w.end()
		if at, places := w.checkpoint(), w.places(); len(places) != 1 || at.Placed != w.controlEnd()-1 || at.Rows != 1 {
			t.Errorf("got %+v and places %+v, want those of the start alone, and no row but the one that says that no event is missing", at, places)
		}
		if n := w.owner.Stats().Control.Next; n != w.controlEnd() {
			t.Errorf("got %d passed, want %d", n, w.controlEnd())
		}
	})
}

func TestWithoutALeaseNothingIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var lost atomic.Bool
		w.conf.Lease = func(time.Time) bool { return !lost.Load() }
		w.start()
		time.Sleep(time.Second)
		lost.Store(true)
		w.decide(1, schemas.ControlClose, "a")
		time.Sleep(30 * time.Second)
		if s := w.owner.Stats(); s.Control.Next != w.controlEnd()-1 || s.Control.End != w.controlEnd() || s.Control.Applied[schemas.ControlClose] != 0 || len(w.places()) != 1 {
			t.Errorf("without a lease: got %+v, want nothing applied", s.Control)
		}
		lost.Store(false)
		time.Sleep(time.Second)
		w.wantClosed("with the lease", schemas.ControlRule+" key:a")
		w.end()
	})
}

func TestAFullDiskDoesNotStopAPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		w := newWorld(t)
		w.setup = func(o *Owner) { o.ledger.openStore = fullDisks(&full) }
		w.start()
		w.prod.send(time.Now(), "a", "b")
		time.Sleep(time.Second)
		full.Store(true)
		w.decide(1, schemas.ControlClose, "a")
		time.Sleep(3 * time.Second)
		w.wantClosed("disk full", schemas.ControlRule+" key:a")
		if s := w.owner.Stats().State; s != stateMemoryOnly {
			t.Errorf("got %v, want %v", s, stateMemoryOnly)
		}
		w.prod.send(time.Now(), "a", "b", "b")
		time.Sleep(time.Second)
		w.stop()
		<-w.done // its counts are not committed
		full.Store(false)
		w.atRest()
		w.wantCounts(map[string]int64{"a": 2, "b": 3})
		if places := w.places(); len(places) != 3 || places[1].Before != 1 || places[2].Before != 2 {
			t.Errorf("got %+v, want the record where it was applied in memory", places)
		}
	})
}

func TestWithoutTheTopicCountingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		time.Sleep(3 * time.Second)
		w.log.Delete("control")
		time.Sleep(time.Second)
		w.prod.send(time.Now(), "a", "a", "a")
		time.Sleep(5 * time.Second)
		w.wantClosed("without the topic", "r key:a")
		if s := w.owner.Stats(); s.Control.Trouble == nil || s.State != Running {
			t.Errorf("got %v in state %v, want it running, and what the trouble is", s.Control.Trouble, s.State)
		}
		w.log.Create(1, "control")
		w.decide(1, schemas.ControlClose, "b")
		time.Sleep(10 * time.Second)
		w.wantClosed("with the topic", "r key:a", schemas.ControlRule+" key:b")
		if s := w.owner.Stats(); s.Control.Trouble != nil {
			t.Errorf("got %v, want no trouble", s.Control.Trouble)
		}
		w.end()
		w.log.Delete("control") // while nobody runs, and the store has records of it
		w.start()
		time.Sleep(10 * time.Second)
		w.wantClosed("after a restart without it", schemas.ControlRule+" key:b", "r key:a")
		w.end()
	})
}

// A topic that was made anew is read from its start. What was decided in the old one stays in force, and its copies change nothing.
func TestATopicThatWasMadeAnewIsReadOnceMore(t *testing.T) {
	for name, running := range map[string]bool{"while an owner runs": true, "while nobody runs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start()
				for i := range byte(5) {
					w.decide(10+i, schemas.ControlClose, "a")
				}
				w.decide(1, schemas.ControlClose, "b")
				time.Sleep(time.Second)
				old := w.log.Records("control", 0)
				if !running {
					w.end()
				}
				w.log.Recreate("control")
				if !running {
					w.start()
				}
				time.Sleep(3 * time.Second)
				w.log.Append("control", 0, kafkaio.Message{Time: old[5].Time, Value: old[5].Value}) // somebody copies it
				w.decide(2, schemas.ControlUndo, "")
				w.decide(3, schemas.ControlClose, "c")
				time.Sleep(3 * time.Second)
				w.wantClosed("", schemas.ControlRule+" key:a", schemas.ControlRule+" key:c")
				if s := w.owner.Stats().Control; s.Again != 1 || s.Next != w.controlEnd() || s.End != w.controlEnd() {
					t.Errorf("got %+v, want the topic read once more, up to its end", s)
				}
				w.end()
			})
		})
	}
}

func TestWhatCannotBeReadIsSkippedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		later, err := pb.AppendControl(nil, &schemas.Control{
			ID: schemas.ControlID{1}, Time: 1, Author: "ann", Reason: "r", Action: schemas.ControlUndo, Target: schemas.ControlID{2},
		})
		if err != nil {
			t.Fatal(err)
		}
		later = append(later[:len(later)-20], 0xf2, 0x01, 0x00) // field 30 in place of field 10
		w.start()
		time.Sleep(time.Second)
		w.log.Append("control", 0, kafkaio.Message{Value: later}, kafkaio.Message{Value: []byte("garbage")}, kafkaio.Message{})
		w.decide(3, schemas.ControlClose, "a")
		time.Sleep(time.Second)
		w.wantClosed("", schemas.ControlRule+" key:a")
		if s := w.owner.Stats().Control; s.Later != 1 || s.Unreadable != 2 || s.Next != w.controlEnd() {
			t.Errorf("got %+v, want one of a later version, two that cannot be read, and all passed over", s)
		}
		w.end()
	})
}

// What was decided while nobody ran holds before gates learn anything: nobody is closed for a moment whom a person has opened.
func TestWhatWasDecidedWhileNobodyRanHoldsBeforeAnythingIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.atRest()
		w.prod.send(time.Now(), "a", "a", "a")
		w.decide(1, schemas.ControlOpen, "a")
		before := len(w.log.decisions(t))
		w.atRest()
		for _, r := range w.log.decisions(t)[before:] {
			if d := r.Decision; d != nil && d.Until > d.CloseAt {
				t.Errorf("got %+v, want nobody closed", d)
			}
		}
	})
}

// remembered returns how many control records the store remembers.
func (w *world) remembered() (n int) {
	w.t.Helper()
	f, _, err := Inspect(w.conf.Dir, w.conf.Rules, w.conf.Fold)
	if err != nil {
		w.t.Fatal(err)
	}
	for range f.View().Records().All(0) {
		n++
	}
	return n
}

func TestARecordThatIsDeliveredTwiceCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(time.Second)
		w.decide(1, schemas.ControlReset, "a")
		time.Sleep(time.Second)
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(time.Second)
		again := w.log.Records("control", 0)[0]
		w.log.Append("control", 0, kafkaio.Message{Time: again.Time, Value: again.Value})
		time.Sleep(time.Second)
		w.end()
		w.wantCounts(map[string]int64{"a": 2})
		if n := w.remembered(); n != 1 {
			t.Errorf("got %d records remembered, want 1", n)
		}
	})
}

// An attacker who may write the control topic cannot stop a partition for good: a take or place of the last epoch that exists is counted
// and passed over, in the middle of the topic, at its end, and when an owner starts.
func TestATakeOfTheLastEpochStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		attack := func() {
			now := time.Now().UnixNano()
			for _, c := range []schemas.Control{
				{Action: schemas.ControlTake, Epoch: math.MaxUint64},
				{Action: schemas.ControlPlace, Epoch: math.MaxUint64, Seq: 1},
			} {
				c.Time, c.Author, c.Topic = now, "mallory", "requests"
				w.log.Append("control", 0, kafkaio.Message{Time: now, Value: mustControl(t, &c)})
			}
		}
		attack()
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(3 * time.Second)
		attack()
		w.decide(1, schemas.ControlClose, "b")
		time.Sleep(time.Second)
		w.wantClosed("while it runs", schemas.ControlRule+" key:b")
		if s := w.owner.Stats().Control; s.Unreadable != 4 || s.Trouble != nil {
			t.Errorf("got %+v, want four records passed over", s)
		}
		w.end()
		attack()
		w.start()
		w.decide(2, schemas.ControlReset, "a")
		time.Sleep(3 * time.Second)
		w.end()
		w.wantCounts(map[string]int64{})
		w.wantExact()
	})
}

// A place with the last number that exists, under the owner's own epoch, makes the owner's places count no longer. The owner notices
// when it reads the next one back, and ends: the next owner has a higher epoch, and applies what waits.
func TestAnOwnerNoticesPlacesOfOthersUnderItsEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.prod.send(time.Now(), "a", "a")
		time.Sleep(3 * time.Second)
		foreign := w.places()[0]
		foreign.Seq, foreign.Before = math.MaxUint64, 1
		w.log.Append("control", 0, kafkaio.Message{Time: foreign.Time, Value: mustControl(t, &foreign)})
		w.decide(1, schemas.ControlClose, "b")
		if err := <-w.done; !errors.Is(err, errFenced) {
			t.Fatalf("got %v, want %v", err, errFenced)
		}
		w.start()
		time.Sleep(3 * time.Second)
		w.wantClosed("by the next owner", schemas.ControlRule+" key:b")
		w.end()
		w.wantCounts(map[string]int64{"a": 2})
		w.wantExact()
	})
}

package analyzer

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// futureWorld is a world whose brokers take every time.
type futureWorld struct {
	*world

	forger *producer
	slow   atomic.Int64 // by how many nanoseconds the analyzer's clock is behind
	logs   futureLog
}

// futureLog is where an owner logs while a test reads.
type futureLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *futureLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// count returns how many lines contain a text.
func (l *futureLog) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func newFutureWorld(t *testing.T) *futureWorld {
	t.Helper()
	w := &futureWorld{world: newAuditWorld(t)}
	w.forger = &producer{t: t, log: w.log, id: schemas.ProducerID{0xff}}
	w.conf.JudgeTimes = true
	w.conf.Rejects = "rejects"
	w.conf.Clock = func() time.Time { return time.Now().Add(-time.Duration(w.slow.Load())) }
	w.conf.Logger = slog.New(slog.NewTextHandler(&w.logs, nil))
	return w
}

func year2100() time.Time { return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }

// serve sends a frame of the three callers each second, and beside them from the n-th second on a forgery each second.
func (w *futureWorld) serve(seconds, n int, forged func() time.Time) {
	w.t.Helper()
	for i := range seconds {
		time.Sleep(time.Second)
		w.prod.send(time.Now(), "a", "b", fmt.Sprint("c", i%5))
		if forged != nil && i >= n {
			w.forger.send(forged(), "a", "z")
		}
	}
	synctest.Wait() // until the owner has them: the test may set its clock next
}

// digest is what the store holds that anything depends on.
func (w *futureWorld) digest() uint64 {
	w.t.Helper()
	f, _, err := Inspect(w.conf.Dir, w.conf.Rules, w.conf.Fold)
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Digest(f.LogTime())
}

// plainDigest is what the store would hold if nobody had forged.
func (w *futureWorld) plainDigest() uint64 {
	w.t.Helper()
	f := fold.New(w.conf.Rules, w.conf.Fold)
	for _, r := range w.log.Records("requests", 0) {
		if id, _ := schemas.FrameProducer(r.Value); id != w.forger.id {
			if err := f.Frame(fold.Record{Offset: r.Offset, Time: r.Time, Value: r.Value}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return f.Digest(f.LogTime())
}

func (w *futureWorld) wantUntouched(when string) {
	w.t.Helper()
	if got, want := w.digest(), w.plainDigest(); got != want {
		w.t.Errorf("%s: got digest %x, want %x, as without the messages from the future", when, got, want)
	}
	if r := w.wantExact(); r.Approximate() || r.Log.Rejected[fold.ReasonFuture] == 0 {
		w.t.Errorf("%s: audit: got approximate %v, %v rejected, want it exact and some from the future", when, r.Approximate(), r.Log.Rejected)
	}
}

// TestOneMessageFrom2100ChangesNobodysCount, nor does a server whose clock is hours ahead: not while it runs, nor after a
// restart from the store, from a snapshot or from the log, by the same analyzer or by one whose clock is otherwise.
func TestOneMessageFrom2100ChangesNobodysCount(t *testing.T) {
	for name, forged := range map[string]func() time.Time{
		"2100": year2100, "the last of all times": func() time.Time { return time.Unix(0, math.MaxInt64) },
		"three hours ahead": func() time.Time { return time.Now().Add(3 * time.Hour) },
		"three seconds":     func() time.Time { return time.Now().Add(3 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFutureWorld(t)
				w.conf.Snapshot = 20 * time.Second
				w.start()
				w.serve(30, 10, forged)
				w.kill() // the log holds more than the store
				w.wantNothingLost("killed", 0)
				for _, slow := range []time.Duration{0, 4 * time.Hour, -4 * time.Hour} {
					w.slow.Store(int64(slow)) // of the next owner
					w.wantNothingLost("from the store", slow)
					w.wipe()
					w.wantNothingLost("from a snapshot", slow)
					w.wipe()
					w.keepRefusals()
					w.wantNothingLost("from the log", slow)
				}
			})
		})
	}
}

func (w *futureWorld) wantNothingLost(how string, slow time.Duration) {
	w.t.Helper()
	w.atRest()
	w.wantUntouched(fmt.Sprintf("%s, the clock %v behind", how, slow))
}

// keepRefusals makes state[p] forget all snapshots but for the refusals.
func (w *futureWorld) keepRefusals() {
	w.log.Edit("state", 0, func(records []kafkaio.Record) (kept []kafkaio.Record) {
		for _, r := range records {
			if m, err := pb.DecodeState(r.Value); err == nil && (m.GetRefused() != nil || m.GetRules() != nil) {
				r.Offset = int64(len(kept))
				kept = append(kept, r)
			}
		}
		return kept
	})
}

// TestWithoutJudgingAMessageFromTheFutureWipes is what the others prevent.
func TestWithoutJudgingAMessageFromTheFutureWipes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.conf.JudgeTimes = false
		w.start()
		w.serve(5, 3, year2100)
		w.end()
		if w.digest() == w.plainDigest() {
			t.Error("got the counts untouched: the other tests of this file show nothing")
		}
	})
}

// TestARefusalIsRecordedBeforeAnythingBehindItIsPublished: while state[p] takes nothing, nothing behind a message from the
// future is folded, and no decision or heartbeat speaks of it. An owner that is killed then has judged nothing.
func TestARefusalIsRecordedBeforeAnythingBehindItIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.start()
		w.serve(5, 9, nil)
		time.Sleep(2 * time.Second)
		w.log.SetFault(produces("state", func() kafkaiotest.Fault { return kafkaiotest.Returns(errInjected) }))
		_, end, _ := w.log.Range(t.Context(), "requests", 0)
		w.forger.send(year2100(), "a")
		w.serve(10, 99, nil)
		if next := w.owner.Next(); next > end {
			t.Errorf("got %d folded, want nothing beyond %d: the refusal is not recorded", next, end)
		}
		for _, r := range w.log.decisions(t) {
			if r.Heartbeat != nil && r.Heartbeat.Watermark > end || r.Decision != nil && r.Decision.Evidence.AsOfOffset >= end {
				t.Errorf("got %+v, %+v published, want nothing about %d", r.Heartbeat, r.Decision, end)
			}
		}
		w.stop()
		<-w.done
		w.log.SetFault(nil)
		w.atRest()
		w.wantUntouched("after it was killed")
	})
}

// TestAnotherOwnersRefusalsAreObeyed: what an owner has refused by a slow clock stays refused under one that is right, and
// what one has taken that is right, one with a slow clock takes too.
func TestAnotherOwnersRefusalsAreObeyed(t *testing.T) {
	for _, slowFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newFutureWorld(t)
			other := t.TempDir() + "/0"
			clocks := map[bool]time.Duration{true: time.Minute, false: 0}
			w.slow.Store(int64(clocks[slowFirst]))
			w.start()
			w.serve(20, 99, nil) // one server only: a slow owner refuses it all
			time.Sleep(time.Second)
			w.end()
			first := w.digest()
			own := w.conf.Dir
			w.conf.Dir = other
			w.slow.Store(int64(clocks[!slowFirst]))
			w.atRest()
			if got := w.digest(); got != first {
				t.Errorf("slow first %v: got digest %x from the second owner, want the first one's %x", slowFirst, got, first)
			}
			w.serve(20, 99, nil)
			w.atRest()
			second := w.digest()
			w.conf.Dir = own
			w.slow.Store(int64(clocks[slowFirst]))
			w.atRest()
			if got := w.digest(); got != second {
				t.Errorf("slow first %v: got digest %x from the first owner again, want the second one's %x", slowFirst, got, second)
			}
		})
	}
}

// TestAZombiesRefusalsCountForNothing: an owner that was replaced judges on by its slow clock, and its store is of no use
// to anybody, because it holds another list than the owners' that gates have believed.
func TestAZombiesRefusalsCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.conf.Snapshot = 5 * time.Second
		w.slow.Store(int64(time.Minute))
		var lease atomic.Bool
		lease.Store(true)
		w.conf.Lease = func(time.Time) bool { return lease.Load() }
		w.start()
		time.Sleep(2 * time.Second)
		lease.Store(false) // it is cut off; another takes over
		zombie, dir := w.done, w.conf.Dir
		stop := w.stop
		heir := *w.world
		heir.conf.Dir, heir.conf.Lease = t.TempDir()+"/0", nil
		heir.conf.Clock = time.Now
		heir.start()
		time.Sleep(2 * time.Second)
		w.serve(20, 99, nil)
		lease.Store(true) // for a moment: it writes what it refused to state[p], before it learns that it was replaced
		time.Sleep(3 * time.Second)
		stop()
		if err := <-zombie; err != nil && !errors.Is(err, errFenced) {
			t.Fatal(err)
		}
		heir.end()
		w.conf.Dir = heir.conf.Dir
		want := w.plainDigest()
		if got := w.digest(); got != want {
			t.Errorf("got digest %x, want %x: the heir's clock is right", got, want)
		}
		w.conf.Dir, w.conf.Lease = dir, nil
		w.atRest() // the zombie's store, under a clock that is slow still
		if got := w.digest(); got != want {
			t.Errorf("got digest %x from the zombie's store, want %x: its refusals are nobody's", got, want)
		}
	})
}

// TestALostListIsReported: the topic of state was made anew, so that nobody knows any more what was refused. It is judged anew,
// and audit says that this is approximate.
func TestALostListIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.start()
		w.serve(10, 5, year2100)
		w.end()
		w.wipe()
		w.log.Recreate("state")
		w.atRest()
		if got, want := w.digest(), w.plainDigest(); got != want {
			t.Errorf("got digest %x, want %x: 2100 is still to come", got, want)
		}
		if r := w.mustAudit(); !r.Exact() || !r.Approximate() {
			t.Errorf("audit: got exact %v, approximate %v, want what the log says, approximately", r.Exact(), r.Approximate())
		}
		if w.logs.count("judging them anew") != 1 {
			t.Error("want one line about it")
		}
	})
}

// TestAListThatIsOnlyInTheStore: without a topic of state the store alone remembers, before anything is folded.
func TestAListThatIsOnlyInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.conf.State = ""
		w.start()
		w.serve(10, 5, year2100)
		time.Sleep(time.Second)
		w.end()
		w.slow.Store(-int64(200 * 365 * 24 * time.Hour)) // who comes next would take it
		w.atRest()
		w.wantUntouched("restarted")
	})
}

// TestABatchFullOfRefusals: more than one record of state[p] can hold, or one produce. Each is recorded, and obeyed.
func TestABatchFullOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 3*pb.MaxStateRefused + 1
		w := newFutureWorld(t)
		w.log.SetMaxRecords(2 * many)
		w.serve(2, 99, nil)
		for range many {
			w.forger.send(year2100(), "a")
		}
		w.start()
		time.Sleep(2 * time.Second)
		w.end()
		w.wipe()
		w.keepRefusals()
		w.atRest()
		w.wantUntouched("from the log")
		f, _, err := Inspect(w.conf.Dir, w.conf.Rules, w.conf.Fold)
		if err != nil || len(f.Refusals().Within(0, math.MaxInt64)) != many {
			t.Errorf("got %d refused, %v, want %d", len(f.Refusals().Within(0, math.MaxInt64)), err, many)
		}
	})
}

// TestARefusedServerIsNamed: by its id in one line of the log, however much it sends, and in the topic of rejects.
func TestARefusedServerIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.start()
		w.serve(100, 0, func() time.Time { return time.Now().Add(10 * time.Second) })
		if s := w.owner.Stats(); s.State != stateRunning || s.Fold.Rejected[fold.ReasonFuture] < 90 {
			t.Errorf("got state %v, %v rejected, want it running, and each refusal counted", s.State, s.Fold.Rejected)
		}
		for i := range 3 * maxNamed {
			w.forger.id = schemas.ProducerID{0xfe, byte(i), byte(i >> 8)}
			w.forger.send(year2100(), "a")
			time.Sleep(time.Minute) // more of them at a time would be the majority
			w.serve(1, 9, nil)
		}
		w.end()
		if n := w.logs.count("producer=ff000000000000000000000000000000"); n != 1 {
			t.Errorf("got the server named %d times, want once", n)
		}
		if n := w.logs.count("refused a message from the future"); n != maxNamed {
			t.Errorf("got %d producers named, want %d at most", n, maxNamed)
		}
		shown := w.shown()
		if !slices.ContainsFunc(shown, func(r reject.Reject) bool { return r.Reason == fold.ReasonFuture }) {
			t.Errorf("got %d rejects, want one from the future", len(shown))
		}
	})
}

// TestTheOwnersClockIsWrong: with three servers it waits, says so once, and loses nothing; with one it refuses, and is not
// ready.
func TestTheOwnersClockIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		servers := []*producer{w.prod, {t: t, log: w.log, id: schemas.ProducerID{2}}, {t: t, log: w.log, id: schemas.ProducerID{3}}}
		send := func(seconds int) {
			for range seconds {
				time.Sleep(time.Second)
				for _, p := range servers {
					p.send(time.Now(), "a", "b")
				}
			}
		}
		w.start()
		send(10)
		w.slow.Store(int64(time.Hour))
		send(300)
		if s := w.owner.Stats(); s.State != stateClock || s.Fold.Rejected[fold.ReasonFuture] != 0 || s.Next > 33 {
			t.Errorf("got state %v, next %d, %v rejected, want it to wait", s.State, s.Next, s.Fold.Rejected)
		}
		if n := w.logs.count("clock is behind"); n != 1 {
			t.Errorf("got %d lines, want one", n)
		}
		w.slow.Store(0)
		time.Sleep(5 * time.Second)
		if s := w.owner.Stats(); s.State != stateRunning || s.Next != 930 {
			t.Errorf("got state %v, next %d, want all folded once the clock is right", s.State, s.Next)
		}
		w.slow.Store(int64(time.Hour))
		send(3)
		w.end() // it can be stopped while it waits
		w.slow.Store(0)
		w.atRest()
		w.forger.id = schemas.ProducerID{9} // who has sent nothing
		if got, want := w.digest(), w.plainDigest(); got != want {
			t.Errorf("got digest %x, want %x: nothing was lost", got, want)
		}
	})
}

// TestTheOnlyServerIsAhead: its messages are refused, and the analyzer is not ready until a minute after the last.
func TestTheOnlyServerIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.start()
		w.serve(5, 99, nil)
		w.slow.Store(int64(time.Hour))
		w.serve(5, 99, nil)
		if s := w.owner.Stats(); s.State != stateClock || s.Fold.Rejected[fold.ReasonFuture] != 5 {
			t.Errorf("got state %v, %v rejected, want 5 refused and not ready", s.State, s.Fold.Rejected)
		}
		time.Sleep(time.Minute + time.Second)
		if s := w.owner.Stats(); s.State != stateRunning {
			t.Errorf("a minute later: got state %v, want running: nobody says otherwise", s.State)
		}
		w.end()
	})
}

// TestAnIdleLogAndABacklogAreTaken: a night without requests, and an hour of them that nobody has read.
func TestAnIdleLogAndABacklogAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.start()
		w.serve(5, 99, nil)
		time.Sleep(9 * time.Hour)
		w.serve(5, 99, nil)
		w.end()
		w.serve(3600, 99, nil)
		if s := w.atRest(); s.Rejected[fold.ReasonFuture] != 0 {
			t.Errorf("got %v rejected, want none", s.Rejected)
		}
		if got, want := w.digest(), w.plainDigest(); got != want {
			t.Errorf("got digest %x, want %x", got, want)
		}
	})
}

// TestWhereBrokersBoundTimesNothingIsWritten: without JudgeTimes there is no list, in no store and no topic.
func TestWhereBrokersBoundTimesNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.conf.JudgeTimes, w.conf.Snapshot = false, 5*time.Second
		w.start()
		w.serve(20, 99, nil)
		w.end()
		for _, r := range w.log.Records("state", 0) {
			if m, err := pb.DecodeState(r.Value); err != nil || m.GetRefused() != nil || fold.KindOf(m.GetRow().GetKey()) == fold.RefusalRow {
				t.Errorf("state: got %v, %v, want nothing about refusals", m, err)
			}
		}
		f, _, err := Inspect(w.conf.Dir, w.conf.Rules, w.conf.Fold)
		if err != nil || refusedAny(f.Refusals()) {
			t.Errorf("store: got %+v, %v, want no list", f.Refusals(), err)
		}
	})
}

// TestAnAnalyzerThatJudgesNoMoreStillObeys: the setting was added to the topic, and the next owner was told.
func TestAnAnalyzerThatJudgesNoMoreStillObeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFutureWorld(t)
		w.conf.Snapshot = 5 * time.Second
		w.start()
		w.serve(20, 10, year2100)
		w.kill()
		w.conf.JudgeTimes = false
		w.wantNothingLost("from the store", 0)
		w.wipe()
		w.wantNothingLost("from a snapshot", 0)
	})
}

func refusedAny(r *fold.Refusals) bool {
	_, _, judged := r.Judged()
	return judged || len(r.Within(0, math.MaxInt64)) > 0
}

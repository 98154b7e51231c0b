package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
)

// total returns what a fold has counted of all callers under all rules.
func total(f *fold.Fold) (sum int64) {
	f.View().Rows(f.LogTime(), func(r fold.Row) bool { sum += r.Total; return true })
	return sum
}

func TestAnAnswerIsTheTruthAtItsOffset(t *testing.T) {
	whileItRuns(t, func(w *world) {
		t := w.t
		for range 5 {
			w.prod.send(time.Now(), "a", "b")
			time.Sleep(time.Millisecond)
		}
		sent := time.Now().Add(-time.Millisecond)
		synctest.Wait()
		var at At
		var sum int64
		if err := w.owner.Ask(t.Context(), func(f *fold.Fold, a At) { at, sum = a, total(f) }); err != nil {
			t.Fatal(err)
		}
		if want := (At{Partition: 0, Epoch: w.epoch(), Offset: 5, Control: w.controlEnd(), LogTime: sent.UnixNano()}); at != want {
			t.Errorf("got %+v, want %+v", at, want)
		}
		if sum != 10 {
			t.Errorf("got a weight of %d, want 10", sum)
		}
	})
}

// A batch may take long, so questions are answered between its records, and each answer is the truth at its own offset.
func TestQuestionsAreAnsweredWithinABatch(t *testing.T) {
	whileItRuns(t, func(w *world) {
		t := w.t
		var all sync.WaitGroup
		release := w.keepBusy(&all)
		for range 7 { // a batch
			w.prod.send(time.Now(), "a")
		}
		offsets := make(map[int64]bool)
		for range maxQuestions {
			all.Go(func() {
				mustAsk(t, w.owner, func(f *fold.Fold, at At) {
					time.Sleep(2 * askTurn) // so that no two are answered before the same record of a batch
					offsets[at.Offset] = true
					if got := total(f); got != at.Offset {
						t.Errorf("got a weight of %d at offset %d, want as much", got, at.Offset)
					}
				})
			})
		}
		synctest.Wait()
		release()
		all.Wait()
		for offset := range int64(8) {
			if !offsets[offset] && offset > 0 {
				t.Errorf("nobody was answered at offset %d; got %v", offset, offsets)
			}
		}
	})
}

// keepBusy asks a question whose answer is not over until release is called. It returns when that is being answered.
func (w *world) keepBusy(all *sync.WaitGroup) (release func()) {
	w.t.Helper()
	over := make(chan struct{})
	all.Go(func() { mustAsk(w.t, w.owner, func(*fold.Fold, At) { <-over }) })
	synctest.Wait()
	return func() { close(over) }
}

// whileItRuns runs a story in a bubble, with an owner that runs.
func whileItRuns(t *testing.T, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		defer w.end()
		synctest.Wait()
		story(w)
	})
}

func mustAsk(t *testing.T, o *Owner, f func(*fold.Fold, At)) {
	t.Helper()
	if err := o.Ask(t.Context(), f); err != nil {
		t.Error(err)
	}
}

func TestAtMost64QuestionsWait(t *testing.T) {
	whileItRuns(t, func(w *world) {
		t := w.t
		var all sync.WaitGroup
		release := w.keepBusy(&all)
		answered := 0
		for range 64 {
			all.Go(func() { mustAsk(t, w.owner, func(*fold.Fold, At) { answered++ }) })
		}
		synctest.Wait()
		if err := w.owner.Ask(t.Context(), func(*fold.Fold, At) { t.Error("the question beyond those was answered") }); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		release()
		all.Wait()
		if answered != 64 {
			t.Errorf("got %d answers, want 64", answered)
		}
		mustAsk(t, w.owner, func(*fold.Fold, At) { answered++ })
		if answered != 65 {
			t.Error("there is room again, and nobody was answered")
		}
	})
}

// Whoever gives up may use again what the question would have written to.
func TestAQuestionThatWasGivenUpIsNotAsked(t *testing.T) {
	whileItRuns(t, func(w *world) {
		t := w.t
		var all sync.WaitGroup
		release := w.keepBusy(&all)
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			err := w.owner.Ask(ctx, func(*fold.Fold, At) { t.Error("a question was asked that had been given up") })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		release()
		all.Wait()
		if err := w.owner.Ask(ctx, func(*fold.Fold, At) { t.Error("asked with a context that had ended") }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		mustAsk(t, w.owner, func(*fold.Fold, At) {})
	})
}

// A question that is being answered when its asker gives up may still write: the asker waits for that.
func TestAnAskerWaitsForAnAnswerUnderWay(t *testing.T) {
	whileItRuns(t, func(w *world) {
		t := w.t
		ctx, cancel := context.WithCancel(t.Context())
		var at At
		err := w.owner.Ask(ctx, func(_ *fold.Fold, a At) {
			cancel()
			time.Sleep(time.Second)
			at = a
		})
		if err != nil || at.Epoch == 0 {
			t.Errorf("got %v and %+v, want the answer", err, at)
		}
	})
}

// A bug in a question must neither stop counting nor pass in silence.
func TestAQuestionThatPanicsIsLoggedAndCountingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log bytes.Buffer
		w.conf.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.start()
		synctest.Wait()
		if err := w.owner.Ask(t.Context(), func(*fold.Fold, At) { panic("no such row") }); !errors.Is(err, ErrQuestion) {
			t.Errorf("got %v, want ErrQuestion", err)
		}
		for range 3 {
			w.prod.send(time.Now(), "a")
		}
		synctest.Wait()
		mustAsk(t, w.owner, func(f *fold.Fold, _ At) {
			if got := total(f); got != 3 {
				t.Errorf("after the panic: got a weight of %d, want 3", got)
			}
		})
		w.end()
		if text := log.String(); !strings.Contains(text, "no such row") || !strings.Contains(text, "ask_test.go") {
			t.Errorf("log: got no panic with its stack: %s", text)
		}
	})
}

func TestOnlyAnOwnerThatRunsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lease := true
		w.conf.Lease = func(time.Time) bool { return lease }
		refused := func(o *Owner) *NotRunningError {
			t.Helper()
			err := o.Ask(t.Context(), func(*fold.Fold, At) { t.Error("an owner answered that may not") })
			var e *NotRunningError
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want a NotRunningError", err)
			}
			return e
		}
		if e := refused(NewOwner(w.log, w.conf)); e.State != stateIdle || e.NoLease {
			t.Errorf("before it runs: got %v, want idle", e)
		}
		w.start()
		synctest.Wait()
		lease = false
		if e := refused(w.owner); !e.NoLease || e.State != stateRunning || !strings.Contains(e.Error(), "lease has run out") {
			t.Errorf("without a lease: got %+v, want NoLease", e)
		}
		lease = true
		mustAsk(t, w.owner, func(*fold.Fold, At) {})
		w.end()
		if e := refused(w.owner); e.State != stateIdle || e.Error() != "partition 0: got state idle, want running or memory-only" {
			t.Errorf("after its end: got %v, want idle", e)
		}
	})
}

// A lease may run out while questions wait, and an owner may stop: nobody waits for ever, and nobody hears of old counts.
func TestQuestionsThatWaitAreRefusedWhenTheOwnerMayNotAnswerAnyMore(t *testing.T) {
	for _, stop := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			lease := true
			w.conf.Lease = func(time.Time) bool { return lease }
			w.start()
			synctest.Wait()
			var all sync.WaitGroup
			release := w.keepBusy(&all)
			if stop {
				w.stop() // the loop ends at once, or answers some of them first
			}
			for n := range 10 {
				all.Go(func() {
					err := w.owner.Ask(t.Context(), func(*fold.Fold, At) {
						if !stop {
							t.Error("answered without a lease")
						}
					})
					var e *NotRunningError
					if err != nil && (!errors.As(err, &e) || e.NoLease == stop) || err == nil && !stop {
						t.Errorf("question %d: got %v, want a NotRunningError", n, err)
					}
				})
			}
			synctest.Wait()
			lease = stop
			release()
			all.Wait()
			lease = true
			w.end()
		})
	}
}

func TestAnAnalyzerAsksTheOwnerOfThePartition(t *testing.T) {
	a := New(newTestLog(), Config{})
	var e *NotOwnerError
	err := a.Ask(t.Context(), 3, func(*fold.Fold, At) { t.Error("nobody owns the partition") })
	if !errors.As(err, &e) || e.Partition != 3 || err.Error() != "this analyzer does not own partition 3" {
		t.Errorf("got %v, want a NotOwnerError", err)
	}
	whileItRuns(t, func(w *world) {
		t := w.t
		a.owners[0] = &ownerRun{owner: w.owner}
		asked := false
		if err := a.Ask(t.Context(), 0, func(*fold.Fold, At) { asked = true }); err != nil || !asked {
			t.Errorf("got %v and %v, want an answer", err, asked)
		}
	})
}

// BenchmarkNobodyAsks measures what it costs a record that questions may be asked.
func BenchmarkNobodyAsks(b *testing.B) {
	a := newQuestions(nil)
	for b.Loop() {
		if a.anyWaiting() {
			b.Fatal(fmt.Errorf("somebody asks"))
		}
	}
}

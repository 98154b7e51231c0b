package limit

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestScheduleRunsInOrderAtItsRate(t *testing.T) {
	var order []int
	got := turns(t, func(ctx context.Context, turn func()) {
		s := NewSchedule(NewRing(2, time.Second), 10)
		for i := range 5 {
			if err := s.Add(func(context.Context) { order = append(order, i); turn() }); err != nil {
				t.Error(err)
			}
		}
		s.Close()
		s.Close() // a second time does nothing
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Add(func(context.Context) {}); !errors.Is(err, ErrClosed) {
			t.Errorf("added to a closed one: got %v", err)
		}
	})
	if !slices.Equal(got, []int64{0, 0, 1000, 1000, 2000}) || !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
		t.Errorf("got %v at %v", order, got)
	}
}

func TestScheduleNeverBlocksAGoroutineThatAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := NewSchedule(NewRing(1, time.Hour), 3)
		var errs []error
		for range 5 {
			errs = append(errs, s.Add(func(context.Context) { t.Error("nothing runs it") }))
		}
		if errs[2] != nil || !errors.Is(errs[3], ErrFull) || !errors.Is(errs[4], ErrFull) {
			t.Errorf("got %v; the queue is for 3", errs)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("adding took %v", d)
		}
	})
}

// TestScheduleSaysWhatItDropped ends the context while functions wait.
func TestScheduleSaysWhatItDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSchedule(NewRing(1, time.Second), 10)
		ran := 0
		for range 6 {
			if err := s.Add(func(context.Context) { ran++ }); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2500*time.Millisecond, cancel)
		err := s.Run(ctx)
		if ran != 3 || !errors.Is(err, context.Canceled) || err.Error() != "limit: 3 scheduled functions dropped: context canceled" {
			t.Errorf("ran %d, then %v", ran, err)
		}
		if err := s.Add(func(context.Context) {}); !errors.Is(err, ErrClosed) {
			t.Errorf("added after Run: got %v", err)
		}
	})
}

func TestScheduleThatNeverHasATurn(t *testing.T) {
	s := NewSchedule(NewRing(0, time.Second), 10)
	if err := s.Add(func(context.Context) { t.Error("there is never a turn") }); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, ErrNever) {
		t.Errorf("got %v, want %v", err, ErrNever)
	}
}

// TestScheduleFromMany adds from many goroutines while it runs: each of theirs runs once, in their order.
func TestScheduleFromMany(t *testing.T) {
	const goroutines, each = 8, 200
	s := NewSchedule(NewTokenBucket(1_000_000, time.Second, 0), 16)
	var got [goroutines][]int
	var run, add sync.WaitGroup
	run.Go(func() {
		if err := s.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for g := range goroutines {
		add.Go(func() {
			for i := range each {
				err := ErrFull
				for errors.Is(err, ErrFull) {
					err = s.Add(func(context.Context) { got[g] = append(got[g], i) })
					runtime.Gosched()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	add.Wait()
	s.Close()
	run.Wait()
	for g, ran := range got {
		if len(ran) != each || !slices.IsSorted(ran) {
			t.Errorf("goroutine %d: %d ran, want %d in order", g, len(ran), each)
		}
	}
}

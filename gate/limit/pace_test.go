package limit

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// turns runs a loop in virtual time and returns when each round of it was, in milliseconds since the start.
func turns(t *testing.T, run func(ctx context.Context, turn func())) (got []int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		run(t.Context(), func() { got = append(got, time.Since(start).Milliseconds()) })
	})
	return got
}

func TestWaitComesAtItsTurn(t *testing.T) {
	for name, c := range map[string]struct {
		make func() Waiter
		want []int64
	}{
		"ring":    {func() Waiter { return NewRing(2, time.Second) }, []int64{0, 0, 1000, 1000, 2000, 2000}},
		"sliding": {func() Waiter { return NewSliding(2, time.Second, 10) }, []int64{0, 0, 1100, 1100, 2200, 2200}},
		"fixed":   {func() Waiter { return NewFixed(2, time.Second) }, []int64{0, 0, 1000, 1000, 2000, 2000}},
		"token":   {func() Waiter { return NewTokenBucket(2, time.Second, 3) }, []int64{0, 0, 0, 500, 1000, 1500}},
		"leaky":   {func() Waiter { return NewLeakyBucket(2, time.Second, 9) }, []int64{0, 500, 1000, 1500, 2000, 2500}},
	} {
		for _, keyed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				got := turns(t, func(ctx context.Context, turn func()) {
					l := c.make()
					if p, ok := l.(Pattern); ok && keyed {
						l = NewKeyed(1, p).Key("a")
					}
					for range len(c.want) {
						if err := l.Wait(ctx); err != nil {
							t.Fatal(err)
						}
						turn()
					}
				})
				if !slices.Equal(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		}
	}
}

func TestWaitersGoInOrder(t *testing.T) {
	for name := range kinds(1, time.Second) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := kinds(1, time.Second)[name]
				order := make(chan int, 5)
				for i := range cap(order) {
					go func() {
						if err := l.Wait(t.Context()); err == nil {
							order <- i
						}
					}()
					synctest.Wait()
				}
				for i := range cap(order) {
					if got := <-order; got != i {
						t.Errorf("got %d in place %d", got, i)
					}
				}
			})
		})
	}
}

func TestWaitFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for name, l := range kinds(1, time.Second) {
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(name, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
			if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: the turn comes after the deadline; got %v", name, err)
			}
			cancel()
			if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the context had ended; got %v", name, err)
			}
			if got := l.RetryAfter(time.Now(), 1); got > 1100*time.Millisecond {
				t.Errorf("%s: failures were charged: the next turn is in %v", name, got)
			}
		}
		full := NewLeakyBucket(1, time.Second, 1)
		full.Reserve()
		full.Reserve()
		if err := full.Wait(t.Context()); !errors.Is(err, ErrFull) {
			t.Errorf("got %v, want %v", err, ErrFull)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited for %v", waited)
		}
	})
}

// TestWaitGivesItsTurnBack ends a wait in the middle.
func TestWaitGivesItsTurnBack(t *testing.T) {
	for name := range kinds(1, time.Second) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := kinds(1, time.Second)[name]
				if err := l.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				first := l.RetryAfter(time.Now(), 1)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(300*time.Millisecond, cancel)
				if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				if got, want := l.RetryAfter(time.Now(), 1), first-300*time.Millisecond; got != want {
					t.Errorf("the next turn is in %v, want %v", got, want)
				}
			})
		})
	}
}

func TestDo(t *testing.T) {
	stop := errors.New("stop")
	got := turns(t, func(ctx context.Context, turn func()) {
		f := func(context.Context) error { turn(); return nil }
		if err := Do(ctx, NewRing(2, time.Second), f, f, f); err != nil {
			t.Error(err)
		}
		fail := func(context.Context) error { return stop }
		if err := Do(ctx, NewRing(1, time.Second), f, fail, f); !errors.Is(err, stop) {
			t.Errorf("got %v, want %v", err, stop)
		}
		if err := Do(ctx, NewRing(0, time.Second), f); !errors.Is(err, ErrNever) {
			t.Errorf("got %v, want %v", err, ErrNever)
		}
	})
	if want := []int64{0, 0, 1000, 1000}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSeq(t *testing.T) {
	got := turns(t, func(ctx context.Context, turn func()) {
		ctx, cancel := context.WithTimeout(ctx, 3500*time.Millisecond)
		defer cancel()
		last := -1
		for i := range Seq(ctx, NewLeakyBucket(1, time.Second, 5)) {
			if i != last+1 {
				t.Errorf("got %d after %d", i, last)
			}
			last = i
			turn()
		}
		for range Seq(ctx, NewRing(1, time.Hour)) {
			break // and nothing hangs
		}
	})
	if want := []int64{0, 1000, 2000, 3000}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEach(t *testing.T) {
	var words []string
	got := turns(t, func(ctx context.Context, turn func()) {
		for w := range Each(ctx, NewFixed(2, time.Second), slices.Values([]string{"a", "b", "c"})) {
			words = append(words, w)
			turn()
		}
		for range Each(ctx, NewFixed(0, time.Second), slices.Values([]string{"a"})) {
			t.Error("there is never a turn, and yet one")
		}
	})
	if !slices.Equal(got, []int64{0, 0, 1000}) || !slices.Equal(words, []string{"a", "b", "c"}) {
		t.Errorf("got %v at %v", words, got)
	}
}

package peers

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// closing closes a subject when the test ends, if it can be closed.
func closing(t *testing.T, s Subject) Subject {
	t.Helper()
	if c, ok := s.(io.Closer); ok {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s
}

// each runs a test on every rival, all at once: most of them have to wait for a second to pass.
func each(t *testing.T, test func(t *testing.T, l Limiter)) {
	t.Helper()
	for _, l := range Limiters() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

func TestRivalsLimit(t *testing.T) {
	each(t, func(t *testing.T, l Limiter) {
		if l.Blocks {
			return // see TestUberLimits
		}
		s := closing(t, l.New(Quota{Events: 3, Per: time.Hour}))
		for i, want := range []int{0, 0, 0, 1, 1} {
			if got := s.Ask([]string{"alice"}); got != want {
				t.Errorf("question %d about alice: got %d refused, want %d", i+1, got, want)
			}
		}
		if got := s.Ask([]string{"bob", "bob", "carol", "alice", "bob", "bob"}); got != 2 {
			t.Errorf("got %d refused, want 2: alice, and bob's fourth", got)
		}
	})
}

// A refusal of a limiter that is spent is what hits are measured beside.
func TestRivalsStaySpent(t *testing.T) {
	each(t, func(t *testing.T, l Limiter) {
		if l.Blocks {
			return
		}
		s := closing(t, l.New(Spent()))
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = fmt.Sprint("caller-", i)
		}
		if got := s.Ask(keys); got != 0 {
			t.Errorf("got %d of 100 refused at first, want 0", got)
		}
		for range 100 {
			if got := s.Ask(keys); got != 100 {
				t.Fatalf("got %d of 100 refused, want all", got)
			}
		}
	})
}

// A rival that runs out of its quota while it is measured would be measured at refusing. Several refill by the second,
// one of them wrongly if the quota is large: so this goes on beyond a second, with two goroutines.
func TestRivalsAllowForAsLongAsTheyAreAsked(t *testing.T) {
	each(t, func(t *testing.T, l Limiter) {
		s := closing(t, l.New(Generous()))
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = "caller"
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for start, n := time.Now(), 0; time.Since(start) < 1200*time.Millisecond; n += len(keys) {
					if got := s.Ask(keys); got != 0 {
						t.Errorf("got %d refused after %d questions, want 0", got, n)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// The trap that newGoLimiter goes round: should it be gone some day, the way round may go too.
func TestGoLimiterRefillsWrongly(t *testing.T) {
	refill := func(tokens float64) float64 { return min(tokens, 1e9/tokens) } // a second later, by availableTokens of 0.7.1
	if got := refill(31_622); got < 31_000 {
		t.Errorf("got %v tokens, want about 31 622", got)
	}
	if got := refill(1e6); got != 1000 {
		t.Errorf("got %v tokens of a million, want 1000", got)
	}
	q := Quota{Events: 100, Per: time.Hour}
	s := closing(t, newGoLimiter(q))
	keys := make([]string, 101)
	for i := range keys {
		keys[i] = "caller"
	}
	if got := s.Ask(keys); got != 1 {
		t.Errorf("got %d refused, want 1: small quotas are as they are given", got)
	}
}

func TestGoLimiterEndsWithClose(t *testing.T) {
	s := newGoLimiter(Generous())
	c, ok := s.(io.Closer)
	if !ok {
		t.Fatal("got no Close: its goroutine would keep all callers in memory")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.Ask([]string{"caller"}); got != 1 {
		t.Errorf("got %d refused of a closed store, want 1", got)
	}
}

func TestUberLimits(t *testing.T) {
	t.Parallel()
	s := newUber(Quota{Events: 1000, Per: time.Second})
	keys := make([]string, 51)
	for i := range keys {
		keys[i] = "alice"
	}
	start := time.Now()
	if got := s.Ask(keys); got != 0 {
		t.Errorf("got %d refused, want 0: it waits instead", got)
	}
	if took := time.Since(start); took < 40*time.Millisecond { // it lets ten pass ahead of their time
		t.Errorf("got 51 events at 1000 a second in %v, want 50 ms or little less", took)
	}
}

func TestLimitersHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Limiters() {
		if l.Name == "" || seen[l.Name] {
			t.Errorf("got name %q, twice or empty", l.Name)
		}
		seen[l.Name] = true
	}
	if len(seen) < 7 {
		t.Errorf("got %d rivals, want 7 libraries at least", len(seen))
	}
}

func TestRefusedQuotaIsABug(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got no panic for a quota that throttled refuses")
		}
	}()
	newThrottled(Quota{Events: 0, Per: 0})
}

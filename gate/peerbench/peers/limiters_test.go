package peers

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
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

func TestRivalsLimit(t *testing.T) {
	for _, l := range Limiters() {
		if l.Blocks {
			continue // see TestUberLimits
		}
		s := closing(t, l.New(Quota{Events: 3, Per: time.Hour}))
		for i, want := range []int{0, 0, 0, 1, 1} {
			if got := s.Ask([]string{"alice"}); got != want {
				t.Errorf("%s, question %d about alice: got %d refused, want %d", l.Name, i+1, got, want)
			}
		}
		if got := s.Ask([]string{"bob", "bob", "carol", "alice", "bob", "bob"}); got != 2 {
			t.Errorf("%s: got %d refused, want 2: alice, and bob's fourth", l.Name, got)
		}
	}
}

// A refusal of a limiter that is spent is what hits are measured beside.
func TestRivalsStaySpent(t *testing.T) {
	for _, l := range Limiters() {
		if l.Blocks {
			continue
		}
		s := closing(t, l.New(Spent()))
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = fmt.Sprint("caller-", i)
		}
		if got := s.Ask(keys); got != 0 {
			t.Errorf("%s: got %d of 100 refused at first, want 0", l.Name, got)
		}
		for range 100 {
			if got := s.Ask(keys); got != 100 {
				t.Fatalf("%s: got %d of 100 refused, want all", l.Name, got)
			}
		}
	}
}

// A rival that runs out of its quota while it is measured would be measured at refusing. Several refill by the second,
// one of them wrongly if the quota is large: so this goes on beyond a second, with two goroutines.
func TestRivalsAllowForAsLongAsTheyAreAsked(t *testing.T) {
	keys := repeats(1000)
	for _, l := range Limiters() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel() // most of the time none has the processor
			s := closing(t, l.New(Generous()))
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
}

// repeats returns n times the same key.
func repeats(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "caller"
	}
	return keys
}

// The trap that newGoLimiter goes round, should it be gone some day: a million tokens in 10 ms, and when the first 10 ms
// have passed, ten.
func TestGoLimiterRefillsWrongly(t *testing.T) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 1_000_000, Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := closing(t, &goLimiter{store})
	if got := s.Ask(repeats(1)); got != 0 {
		t.Errorf("got %d refused at first, want 0", got)
	}
	refused := 0
	for deadline := time.Now().Add(10 * time.Second); refused < 900; refused = s.Ask(repeats(1000)) {
		if time.Now().After(deadline) {
			t.Fatal("got all of 1000 allowed for 10 s: go-limiter is mended, and newGoLimiter may do without its trick")
		}
	}
}

func TestGoLimiterTakesSmallQuotasAsTheyAre(t *testing.T) {
	s := closing(t, newGoLimiter(Quota{Events: 100, Per: time.Hour}))
	if got := s.Ask(repeats(101)); got != 1 {
		t.Errorf("got %d refused, want 1", got)
	}
}

func TestUberLimits(t *testing.T) {
	t.Parallel()
	s := newUber(Quota{Events: 1000, Per: time.Second})
	start := time.Now()
	if got := s.Ask(repeats(51)); got != 0 {
		t.Errorf("got %d refused, want 0: it waits instead", got)
	}
	if took := time.Since(start); took < 40*time.Millisecond { // it lets ten pass ahead of their time
		t.Errorf("got 51 events at 1000 a second in %v, want 50 ms or little less", took)
	}
}

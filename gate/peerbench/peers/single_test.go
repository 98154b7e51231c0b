package peers

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSinglesLimit(t *testing.T) {
	for _, p := range Singles() {
		if p.Blocks {
			continue // see below
		}
		s := p.New(Quota{Events: 3, Per: 24 * time.Hour})
		for i, want := range []int{0, 0, 0, 1, 1} {
			if got := s.Ask([]string{"whoever"}); got != want {
				t.Errorf("%s, question %d: got %d refused, want %d", p.Name, i+1, got, want)
			}
		}
		if got := s.Ask([]string{"somebody", "else"}); got != 2 {
			t.Errorf("%s: got %d refused, want 2: keys mean nothing to it", p.Name, got)
		}
	}
}

func TestSinglesThatWaitDo(t *testing.T) {
	for _, p := range Singles() {
		if !p.Blocks {
			continue
		}
		s := p.New(Quota{Events: 1000, Per: time.Second})
		start := time.Now()
		if got := s.Ask(make([]string, 51)); got != 0 {
			t.Errorf("%s: got %d refused, want 0: it waits instead", p.Name, got)
		}
		if took := time.Since(start); took < 40*time.Millisecond {
			t.Errorf("%s: got 51 events at 1000 a second in %v", p.Name, took)
		}
	}
}

// Brisk allows everybody who asks with a fresh clock. Who was kept from the processor after reading it may be refused.
func TestBriskAllows(t *testing.T) {
	for _, p := range Singles() {
		s, keys := p.New(Brisk()), make([]string, 100)
		refused := 0
		for range 500 {
			refused += s.Ask(keys)
		}
		if refused > 500 {
			t.Errorf("%s: got %d of 50 000 refused, want 1 %% at most", p.Name, refused)
		}
	}
}

func TestSinglesStaySpent(t *testing.T) {
	for _, p := range Singles() {
		if p.Blocks {
			continue
		}
		s := p.New(Spent())
		s.Ask(make([]string, 1))
		if got := s.Ask(make([]string, 1000)); got != 1000 {
			t.Errorf("%s: got %d of 1000 refused, want all", p.Name, got)
		}
	}
}

func TestSinglesOfBothSides(t *testing.T) {
	own, rivals, names := 0, 0, map[string]bool{}
	for _, p := range Singles() {
		if names[p.Name] {
			t.Errorf("got %s twice", p.Name)
		}
		names[p.Name] = true
		if p.Own {
			own++
		} else {
			rivals++
		}
	}
	if own < 4 || rivals < 3 || !names["limit.Ring"] || !names["x/time/rate"] {
		t.Errorf("got %d of ours and %d rivals, %v", own, rivals, names)
	}
}

// admitted asks a subject about one caller from many goroutines at once, n times in all, and returns how often it may
// pass.
func admitted(s Subject, n int) int {
	const goroutines = 8
	var refused atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range n / goroutines {
				refused.Add(int64(s.Ask([]string{"caller"})))
			}
		})
	}
	wg.Wait()
	return n/goroutines*goroutines - int(refused.Load())
}

// What is measured at two processors must be right there. A limiter that loses count would be quicker.
func TestLimitersCountExactlyAtOnce(t *testing.T) {
	q := Quota{Events: 100, Per: 24 * time.Hour}
	for _, l := range Limiters() {
		if l.Blocks {
			continue
		}
		if got := admitted(closing(t, l.New(q)), 4000); got != 100 {
			t.Errorf("%s: got %d admitted of 4000 at once, want 100", l.Name, got)
		}
	}
	for _, p := range Singles() {
		if p.Blocks {
			continue
		}
		if got := admitted(p.New(q), 4000); got != 100 {
			t.Errorf("%s: got %d admitted of 4000 at once, want 100", p.Name, got)
		}
	}
}

package peers

import (
	"fmt"
	"testing"
	"time"
)

// A library whose constructor takes another unit than we believe would show here: quotas of all lengths hold.
func TestQuotasOfAllLengths(t *testing.T) {
	for _, q := range []Quota{
		{Events: 1, Per: time.Minute},
		{Events: 5, Per: 10 * time.Minute},
		{Events: 1000, Per: 24 * time.Hour},
		{Events: 2000, Per: 7 * 24 * time.Hour},
	} {
		for _, l := range Limiters() {
			if l.Blocks {
				continue
			}
			s := closing(t, l.New(q))
			keys := make([]string, q.Events+10)
			for i := range keys {
				keys[i] = "caller"
			}
			if got := s.Ask(keys); got != 10 {
				t.Errorf("%s, %d in %v: got %d refused of %d, want 10", l.Name, q.Events, q.Per, got, len(keys))
			}
		}
	}
}

// A limiter that is spent must not refill while it is measured, and one that is not spent must.
func TestQuotasRefill(t *testing.T) {
	for _, l := range Limiters() {
		if l.Blocks {
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			s := closing(t, l.New(Quota{Events: 10, Per: 200 * time.Millisecond}))
			refused := 0
			for deadline := time.Now().Add(10 * time.Second); refused == 0; {
				if refused = s.Ask([]string{"caller"}); time.Now().After(deadline) {
					t.Fatal("got nobody refused in 10 s, of thousands")
				}
			}
			for deadline := time.Now().Add(10 * time.Second); s.Ask([]string{"caller"}) > 0; {
				if time.Now().After(deadline) {
					t.Fatal("got nobody allowed in 10 s, with a quota of 50 a second")
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

func TestCallersDoNotShareTheirQuota(t *testing.T) {
	keys := make([]string, 2000)
	for i := range keys {
		keys[i] = fmt.Sprintf("caller-%015d", i)
	}
	for _, l := range Limiters() {
		if l.Blocks {
			continue
		}
		s := closing(t, l.New(Quota{Events: 2, Per: 24 * time.Hour}))
		for round, want := range []int{0, 0, len(keys), len(keys)} {
			if got := s.Ask(keys); got != want {
				t.Errorf("%s, round %d: got %d of %d refused, want %d", l.Name, round+1, got, len(keys), want)
			}
		}
	}
}

func TestAHashingGateClosesCallersGivenInClear(t *testing.T) {
	g, err := NewHashingGate([]string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if got := g.Ask([]string{"a", "b", "c"}); got != 2 {
		t.Errorf("got %d refused, want 2", got)
	}
}

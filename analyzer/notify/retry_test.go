package notify

import (
	"testing"
	"time"
)

func TestPausesDoubleFrom5sTo1h(t *testing.T) {
	for n, seconds := range []float64{5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600} {
		if got := longestPause(n + 1); got.Seconds() != seconds {
			t.Errorf("after %d attempts: got %v, want %v s", n+1, got, seconds)
		}
	}
	for _, n := range []int{-1, 0, 1 << 30} {
		if got := longestPause(n); got < minPause || got > maxPause {
			t.Errorf("after %d attempts: got %v, want it within bounds", n, got)
		}
	}
}

func TestPausesAreLessByUpToAFifth(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for range 1000 {
		got := pause(3, 0)
		if got <= 16*time.Second-1 || got > 20*time.Second {
			t.Fatalf("got %v, want 16 s to 20 s", got)
		}
		seen[got] = true
	}
	if len(seen) < 100 {
		t.Errorf("got %d different pauses of 1000, want them spread", len(seen))
	}
	if got := pause(1, time.Minute); got != time.Minute {
		t.Errorf("got %v, want what the receiver asks for", got)
	}
}

func TestACallExpiresAfterADayAndFiveAttempts(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		attempts int
		age      time.Duration
		want     bool
	}{{5, 24 * time.Hour, true}, {4, 240 * time.Hour, false}, {1000, 24*time.Hour - 1, false}, {1000, 25 * time.Hour, true}, {5, -time.Hour, false}} {
		if got := expired(c.attempts, now.Add(-c.age), now); got != c.want {
			t.Errorf("%d attempts, %v old: got %t, want %t", c.attempts, c.age, got, c.want)
		}
	}
}

func TestRecentIDsForgetTheOldest(t *testing.T) {
	r := newRecentIDs()
	id := func(n int) string { return time.Duration(n).String() }
	for n := range maxRecent + 1 {
		if !r.add(id(n)) {
			t.Fatalf("got %d known, want it new", n)
		}
	}
	if r.add(id(1)) || r.add(id(maxRecent)) {
		t.Error("got a recent id new, want it known")
	}
	if !r.add(id(0)) {
		t.Error("got the oldest id known, want it forgotten")
	}
	if len(r.known) != maxRecent || len(r.ring) != maxRecent {
		t.Errorf("got %d and %d ids, want %d", len(r.known), len(r.ring), maxRecent)
	}
}

package simulate

import (
	"testing"
	"time"
)

// TestAgentsWaitForTheirRequests: an agent sends the next request when the one before ends. A refused one comes again after half a second
// to one and a half, as it was.
func TestAgentsWaitForTheirRequests(t *testing.T) {
	const n = 5
	a := newAgents(1, n, 4, []model{chat()})
	type state struct {
		last    Request
		refused bool
		seen    int
	}
	of := make([]state, n)
	at, servers := start, map[int]bool{}
	for i := range 2000 {
		var r Request
		if !a.next(&r) || r.At < at || r.Callers[0].ID != "caller" {
			t.Fatalf("got %+v after %d", r, at)
		}
		at = r.At
		servers[r.Server] = true
		x := &of[r.Client]
		wait, same := time.Duration(r.At-x.last.At), r.Cost == x.last.Cost && r.Duration == x.last.Duration
		switch {
		case x.seen == 0:
			if r.At >= start+int64(time.Second) {
				t.Errorf("got the first request of an agent at %v", time.Duration(r.At-start))
			}
		case x.refused:
			if !same || wait < time.Second/2 || wait >= 3*time.Second/2 {
				t.Fatalf("got %+v %v after %+v was refused, want the same in about a second", r, wait, x.last)
			}
		case same || wait != x.last.Duration:
			t.Fatalf("got %+v %v after %+v, want another at its end", r, wait, x.last)
		}
		*x = state{r, i%3 == 0, x.seen + 1}
		a.decided(&r, i%3 != 0)
	}
	if len(servers) != 4 {
		t.Errorf("got requests at %d servers, want 4", len(servers))
	}
}

// TestAgentsAskTheSameOfEachLimiter: what an agent sends as its n-th request does not depend on what is refused.
func TestAgentsAskTheSameOfEachLimiter(t *testing.T) {
	costs := func(refuses func(i int) bool) (of [3][]int64) {
		a := newAgents(7, 3, 2, []model{chat()})
		for i := range 3000 {
			var r Request
			a.next(&r)
			if !refuses(i) {
				of[r.Client] = append(of[r.Client], r.Cost)
			}
			a.decided(&r, !refuses(i))
		}
		return of
	}
	all, few := costs(func(int) bool { return false }), costs(func(i int) bool { return i%5 != 0 })
	for c := range all {
		for i := range min(len(all[c]), len(few[c]), 150) {
			if all[c][i] != few[c][i] {
				t.Fatalf("agent %d, request %d: got a cost of %d and of %d", c, i, all[c][i], few[c][i])
			}
		}
	}
}

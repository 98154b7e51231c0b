package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// flight is a request that begins, or for −1 one that ends which began at a time.
type flight struct {
	at     time.Duration
	weight int64
	total  int64
}

func TestInFlightStories(t *testing.T) {
	const s = time.Second
	for name, steps := range map[string][]flight{
		"begin and end":                 {{0, 1, 1}, {s, 1, 2}, {0, -1, 1}, {s, -1, 0}, {2 * s, 1, 1}},
		"merged":                        {{0, 5, 5}, {0, -3, 2}, {0, -2, 0}},
		"an end before its begin":       {{5 * s, -1, 0}, {5 * s, 1, 0}, {5 * s, 1, 1}},
		"a short slot holds no other":   {{0, -4, 0}, {15 * s, 3, 3}, {0, 2, 3}, {0, 3, 4}},
		"forgotten after nine slots":    {{0, 3, 3}, {89 * s, 1, 4}, {90 * s, 1, 2}},
		"an end of a forgotten request": {{0, 3, 3}, {100 * s, 1, 1}, {0, -1, 1}},
		"a slot in between is empty":    {{0, 1, 1}, {35 * s, 1, 2}, {35 * s, -1, 1}, {0, -1, 0}, {40 * s, 1, 1}},
		"the newest slot is empty":      {{0, 1, 1}, {0, -1, 0}, {35 * s, 2, 2}, {35 * s, -2, 0}, {70 * s, 1, 1}},
	} {
		a := NewInFlight(80 * s) // slots of 10 s
		var state State
		for i, step := range steps {
			var c Count
			state, c = a.Add(state, 1000, int64(step.at), step.weight)
			if c.Total != step.total || !a.Valid(state) {
				t.Errorf("%s, step %d: got %d in flight of %v, want %d", name, i, c.Total, state, step.total)
			}
			if v := a.View(state, 1000, int64(step.at)); v.Total != c.Total {
				t.Errorf("%s, step %d: got a view of %d, want %d", name, i, v.Total, c.Total)
			}
		}
	}
}

// TestInFlightOpensWhenRequestsAreForgotten: a full window opens when so many of its oldest requests are forgotten that it is not full.
func TestInFlightOpensWhenRequestsAreForgotten(t *testing.T) {
	a := NewInFlight(80 * time.Second)
	var s State
	for _, at := range []int64{0, 0, 25, 41} {
		s, _ = a.Add(s, 3, at*second, 1)
	}
	for limit, want := range map[int64]int64{5: 41, 4: 90, 3: 90, 2: 110, 1: 130} {
		if c := a.View(s, limit, 41*second); c.Until != want*second || c.Full(41*second) != (limit < 5) {
			t.Errorf("limit %d: got until %d s, want %d s", limit, c.Until/second, want)
		}
	}
	if got := a.Expiry(s); got != 130*second {
		t.Errorf("got an expiry of %d s, want 130 s", got/second)
	}
}

// TestTheOrderOfRequestsInFlightDoesNotMatter, nor whether those that have ended come at all.
func TestTheOrderOfRequestsInFlightDoesNotMatter(t *testing.T) {
	a := NewInFlight(10 * time.Minute)
	rng := rand.New(rand.NewPCG(1, 2))
	var list []flight
	for range 300 {
		at := time.Duration(rng.Int64N(int64(10 * time.Minute)))
		list = append(list, flight{at: at, weight: 1}, flight{at: at, weight: -1})
	}
	open := make(map[time.Duration]int64)
	for i := range 20 {
		list[2*i+1].weight = 0 // lost
		open[list[2*i].at] = 1
	}
	list = append(list, flight{at: 10*time.Minute - 1, weight: 1})
	var want State
	for at := range open {
		want, _ = a.Add(want, 1, int64(at), 1)
	}
	want, _ = a.Add(want, 1, int64(10*time.Minute-1), 1)
	for range 20 {
		var s State
		for _, f := range list {
			s, _ = a.Add(s, 1, int64(f.at), f.weight)
		}
		if now := int64(10 * time.Minute); a.View(s, 1, now).Total != 21 || a.View(s, 1, now) != a.View(want, 1, now) {
			t.Fatalf("got %v, want %v", s, want)
		}
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
}

func TestInFlightAtItsBounds(t *testing.T) {
	a := NewInFlight(time.Millisecond)
	if got := a.Traits(); got.Slot != second || !got.Releases {
		t.Errorf("got %+v, want slots of whole seconds", got)
	}
	for _, weights := range [][]int64{{math.MaxInt64, 1, -1}, {math.MinInt64 + 1, -9, 5}, {math.MaxInt64, math.MinInt64 + 1, 3}} {
		var s State
		for _, w := range weights {
			s, _ = a.Add(s, 10, 0, w)
			if c := a.View(s, 10, 0); c.Total < 0 || !a.Valid(s) {
				t.Errorf("%v: got %d in flight of %v", weights, c.Total, s)
			}
		}
	}
	for name, s := range map[string]State{"no weight": {5}, "a last slot of nothing": {5, 1, 0}, "too many slots": {5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		if a.Valid(s) {
			t.Errorf("%s: got %v as valid", name, s)
		}
	}
	c := a.Coarse()
	s, count := c.Add(nil, 1, 0, 100)
	if len(s) != 0 || count.Full(0) || len(c.Coarsen(State{0, 5}, 0)) != 0 || len(c.Refine(State{1}, 1, 0)) != 0 || !c.Valid(nil) || c.Valid(State{1}) ||
		c.View(nil, 1, 7).Total != 0 || c.Expiry(nil) != math.MinInt64 {
		t.Errorf("a coarse state counts: got %v, %+v", s, count)
	}
	if p, more := a.Parts(State{4, 3, -2, 5}, 1, 4*second, 10); more != 0 || !slices.Equal(p, []Part{{From: 2 * second, To: 3 * second, Leaves: 11 * second, Weight: 5}, {From: 4 * second, To: 5 * second, Leaves: 13 * second, Weight: 3}}) {
		t.Errorf("got parts %+v", p)
	}
}

// TestAGraceIsAtMostAWindow, and only fixed windows have one.
func TestAGraceIsAtMostAWindow(t *testing.T) {
	late := func(a Algorithm, after time.Duration) bool {
		s, _ := a.Add(nil, 100, int64(90*time.Second), 1)
		s, _ = a.Add(s, 100, int64(2*time.Minute), 1)
		s, _ = a.Add(s, 100, int64(2*time.Minute+after), 1)
		_, c := a.Add(s, 100, int64(119*time.Second), 1)
		return c.Place == Late
	}
	for grace, want := range map[time.Duration]time.Duration{0: 2 * time.Second, time.Second: 2 * time.Second, 30 * time.Second: 30 * time.Second, time.Hour: time.Minute} {
		a := WithGrace(NewFixed(time.Minute), grace)
		if late(a, want-1) || !late(a, want) && want < time.Minute {
			t.Errorf("a grace of %v: want late from %v on", grace, want)
		}
	}
	if a := NewSliding(time.Minute, 6); WithGrace(a, time.Hour) != a {
		t.Error("a sliding window got a grace")
	}
}

package window

import (
	"math"
	"testing"
)

func TestLogStories(t *testing.T) {
	tests := map[string]struct {
		limit int64
		steps []step
	}{
		"reopens exactly when the limit-th newest leaves": {3, []step{
			{at: 1 * sec, weight: 1, total: 1, until: open},
			{at: 2 * sec, weight: 1, total: 2, until: open},
			{at: 3 * sec, weight: 1, total: 3, until: 11 * sec},
			{at: 11*sec - 1, weight: 0, total: 3, until: 11 * sec},
			{at: 11 * sec, weight: 0, total: 2, until: open},
			{at: 11 * sec, weight: 1, total: 3, until: 12 * sec},
		}},
		"the limit-th newest unit of weight counts": {10, []step{
			{at: 1 * sec, weight: 9, total: 9, until: open},
			{at: 2 * sec, weight: 5, total: 14, until: 11 * sec}, // five of the nine still needed
			{at: 3 * sec, weight: 5, total: 19, until: 12 * sec}, // 5 + 5: those of second 1 are not
			{at: 4 * sec, weight: 20, total: 30, until: 14 * sec},
		}},
		"an older one goes in place": {2, []step{
			{at: 5 * sec, weight: 1, total: 1, until: open},
			{at: 3 * sec, weight: 1, total: 2, until: 13 * sec},
			{at: 4 * sec, weight: 1, total: 3, until: 14 * sec},
			{at: 1 * sec, weight: 1, total: 3, until: 14 * sec}, // older than the newest two: they decide
		}},
		"equal times share a place": {3, []step{
			{at: 5 * sec, weight: 1, total: 1, until: open},
			{at: 6 * sec, weight: 1, total: 2, until: open},
			{at: 5 * sec, weight: 1, total: 3, until: 15 * sec},
		}},
		"at newest − W is late, a nanosecond after is not": {3, []step{
			{at: 20 * sec, weight: 1, total: 1, until: open},
			{at: 10 * sec, weight: 1, total: 1, until: open, late: true},
			{at: 10*sec + 1, weight: 1, total: 2, until: open},
			{at: 20*sec + 1, weight: 1, total: 2, until: open},
		}},
		"late while full says until when": {1, []step{
			{at: 20 * sec, weight: 1, total: 1, until: 30 * sec},
			{at: 5 * sec, weight: 1, total: 1, until: 30 * sec, late: true},
		}},
		"all gone starts anew": {2, []step{
			{at: 1 * sec, weight: 2, total: 2, until: 11 * sec},
			{at: 11 * sec, weight: 1, total: 1, until: open},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { story(t, NewLog(10*sec), test.limit, test.steps...) })
	}
}

func TestLogMemoryIsBoundedByTheLimit(t *testing.T) {
	a := NewLog(hr)
	var s State
	for at := range int64(10_000) {
		s, _ = a.Add(s, 100, at, 1)
		if pairs := (len(s) - 1) / 2; pairs > 101 {
			t.Fatalf("got %d pairs after %d entries, want at most 101", pairs, at)
		}
		if cap(s) > 1000 {
			t.Fatalf("got room for %d integers after %d entries, want at most 1000", cap(s), at)
		}
	}
}

func TestLogWithALowerLimitThanBefore(t *testing.T) {
	a := NewLog(10 * sec)
	var s State
	for i := range int64(10) {
		s, _ = a.Add(s, 100, i*int64(sec), 1)
	}
	if c := a.View(s, 3, int64(9*sec)); c.Total != 10 || c.Until != int64(17*sec) {
		t.Errorf("got %+v, want 10 until 17 s", c)
	}
	if c := a.View(s, 3, int64(16*sec)); c.Total != 3 || c.Until != int64(17*sec) {
		t.Errorf("got %+v, want 3 until 17 s", c)
	}
	if _, c := a.Add(s, 3, int64(9*sec), 1); c.Total != 4 || c.Until != int64(18*sec) {
		t.Errorf("got %+v, want the newest three and this one, until 18 s", c)
	}
}

func TestLogSaturates(t *testing.T) {
	a := NewLog(10 * sec)
	s, _ := a.Add(nil, 1e18, 1, math.MaxInt64/2)
	s, _ = a.Add(s, math.MaxInt64, 2, math.MaxInt64/2)
	s, c := a.Add(s, math.MaxInt64, 3, math.MaxInt64/2)
	if c.Total != math.MaxInt64 {
		t.Errorf("got total %d, want saturation", c.Total)
	}
	if c = a.View(s, math.MaxInt64, int64(10*sec)+2); c.Total != math.MaxInt64/2 {
		t.Errorf("got %+v, want the third alone: what saturated must come back", c)
	}
	if c = a.View(s, math.MaxInt64, int64(10*sec)+1); c.Total != math.MaxInt64-1 {
		t.Errorf("got %+v, want the second and third", c)
	}
	s, c = a.Add(nil, 1, math.MinInt64, 1)
	if c.Total != 1 || !c.Full(math.MinInt64) || c.Start != math.MinInt64 {
		t.Errorf("got %+v at the beginning of time", c)
	}
	if _, c = a.Add(s, 1, math.MaxInt64, 1); c.Total != 1 || c.Until != math.MaxInt64 {
		t.Errorf("got %+v at the end of time", c)
	}
	s, _ = a.Add(nil, 1, math.MaxInt64, 1)
	if _, c = a.Add(s, 1, math.MinInt64, 1); c.Place != Late {
		t.Errorf("got %+v, want late", c)
	}
}

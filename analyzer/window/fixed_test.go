package window

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
)

func TestFixedStories(t *testing.T) {
	tests := map[string]struct {
		length time.Duration
		limit  int64
		steps  []step
	}{
		"the limit-th entry is the last admitted": {10 * sec, 3, []step{
			{at: 1 * sec, weight: 1, total: 1, until: open},
			{at: 2 * sec, weight: 1, total: 2, until: open},
			{at: 3 * sec, weight: 1, total: 3, until: 10 * sec},
			{at: 9 * sec, weight: 1, total: 4, until: 10 * sec},
			{at: 10 * sec, weight: 1, total: 1, until: open},
		}},
		"an entry of the window before counts there": {10 * sec, 5, []step{
			{at: 8 * sec, weight: 3, total: 3, until: open},
			{at: 10 * sec, weight: 1, total: 1, until: open}, // the server whose clock is ahead
			{at: 10*sec - 1, weight: 2, total: 5, until: 10 * sec, past: true},
			{at: 11 * sec, weight: 1, total: 2, until: open},
			{at: 9 * sec, weight: 1, total: 6, until: 10 * sec, past: true},
		}},
		"until the grace is over": {10 * sec, 1, []step{
			{at: 9 * sec, weight: 1, total: 1, until: 10 * sec},
			{at: 12*sec - 1, weight: 1, total: 1, until: 20 * sec},
			{at: 9 * sec, weight: 1, total: 2, until: 10 * sec, past: true},
			{at: 12 * sec, weight: 1, total: 2, until: 20 * sec},
			{at: 10*sec - 1, weight: 5, total: 2, until: 20 * sec, late: true},
			{at: 19 * sec, weight: 1, total: 3, until: 20 * sec},
		}},
		"a window is never longer open to late entries than it was long": {100 * time.Millisecond, 1, []step{
			{at: 50 * time.Millisecond, weight: 1, total: 1, until: 100 * time.Millisecond},
			{at: 150 * time.Millisecond, weight: 1, total: 1, until: 200 * time.Millisecond},
			{at: 99 * time.Millisecond, weight: 1, total: 2, until: 100 * time.Millisecond, past: true},
			{at: 200 * time.Millisecond, weight: 1, total: 1, until: 300 * time.Millisecond},
			{at: 99 * time.Millisecond, weight: 1, total: 1, until: 300 * time.Millisecond, late: true},
		}},
		"what is two windows old is late": {10 * sec, 1, []step{
			{at: 20 * sec, weight: 1, total: 1, until: 30 * sec},
			{at: 10*sec - 1, weight: 5, total: 1, until: 30 * sec, late: true},
			{at: 19 * sec, weight: 1, total: 1, until: 20 * sec, past: true},
		}},
		"an older entry of this window counts": {10 * sec, 2, []step{
			{at: 18 * sec, weight: 1, total: 1, until: open},
			{at: 11 * sec, weight: 1, total: 2, until: 20 * sec},
		}},
		"weight 0 counts nothing and opens no window": {10 * sec, 2, []step{
			{at: 5 * sec, weight: 2, total: 2, until: 10 * sec},
			{at: 6 * sec, weight: 0, total: 2, until: 10 * sec},
			{at: 12 * sec, weight: 0, total: 0, until: open},
			{at: 7 * sec, weight: 1, total: 3, until: 10 * sec},
		}},
		"windows before 1970 start at multiples too": {10 * sec, 1, []step{
			{at: -1, weight: 1, total: 1, until: 0},
			{at: 0, weight: 1, total: 1, until: 10 * sec},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { story(t, NewFixed(test.length), test.limit, test.steps...) })
	}
}

// A well-known sibling takes the slot's index from the Unix epoch and its start from time.Truncate, which counts from
// year 1. Both agree for a minute and an hour, and disagree where the length does not divide the days in between.
func TestIndexAndStartComeFromOneInteger(t *testing.T) {
	for _, length := range []time.Duration{7 * sec, 13 * sec, 7 * time.Minute, 7 * day, 1, 999_999_937} {
		a := NewFixed(length)
		for _, at := range []int64{0, 1_700_000_000_123_456_789, -1, int64(length), int64(length) - 1, -int64(length)} {
			c := a.View(nil, 1, at)
			if c.Start%int64(length) != 0 || c.Start > at || at-c.Start >= int64(length) {
				t.Errorf("window of %v at %d starts at %d", length, at, c.Start)
			}
			_, c = a.Add(nil, 1, at, 1)
			if c.Until != c.Start+int64(length) {
				t.Errorf("window of %v at %d: got until %d, want %d", length, at, c.Until, c.Start+int64(length))
			}
			if _, next := a.Add(State{integer.FloorDiv(at, int64(length)), 1}, 1, c.Until, 1); next.Start != c.Until {
				t.Errorf("window of %v at %d: the next one starts at %d, want %d", length, at, next.Start, c.Until)
			}
		}
	}
}

func TestFixedAtTheEndsOfTime(t *testing.T) {
	a := NewFixed(hr)
	_, c := a.Add(nil, 1, math.MinInt64, 1)
	if c.Start != math.MinInt64 || c.Until <= c.Start || c.Until%int64(hr) != 0 {
		t.Errorf("first window: got %+v", c)
	}
	s, c := a.Add(nil, 1, math.MaxInt64-1, math.MaxInt64)
	if c.Until != math.MaxInt64 || !c.Full(math.MaxInt64-1) {
		t.Errorf("last window: got %+v", c)
	}
	if _, c = a.Add(s, math.MaxInt64, math.MaxInt64, math.MaxInt64); c.Total != math.MaxInt64 {
		t.Errorf("got total %d, want saturation", c.Total)
	}
}

func TestNewPanicsOnALengthThatRulesRefuse(t *testing.T) {
	for name, build := range map[string]func(){
		"fixed 0":          func() { NewFixed(0) },
		"log negative":     func() { NewLog(-1) },
		"sliding 0":        func() { NewSliding(0, 1) },
		"sliding no slots": func() { NewSliding(sec, 0) },
		"too many slots":   func() { NewSliding(sec, MaxSlots+1) },
		"gcra burst":       func() { NewGCRA(sec, -1) },
		"unit":             func() { NewCalendar(0, time.UTC, 1) },
		"zone":             func() { NewCalendar(Day, nil, 1) },
		"anchor":           func() { NewCalendar(Month, time.UTC, 32) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic")
				}
			}()
			build()
		})
	}
}

package window

import (
	"math"
	"testing"
	"time"
)

func TestSlidingStories(t *testing.T) {
	tests := map[string]struct {
		length time.Duration
		slots  int
		limit  int64
		steps  []step
	}{
		"reopens when the slot that filled it has left": {10 * sec, 10, 3, []step{
			{at: 0, weight: 1, total: 1, until: open},
			{at: 5 * sec, weight: 1, total: 2, until: open},
			{at: 5*sec + 1, weight: 1, total: 3, until: 11 * sec}, // slot 0 leaves with slot 11
			{at: 10*sec + 999*ms, weight: 1, total: 4, until: 16 * sec},
			{at: 16 * sec, weight: 1, total: 2, until: open},
		}},
		"slots+1 slots count": {10 * sec, 10, 2, []step{
			{at: 999 * ms, weight: 1, total: 1, until: open},
			{at: 10 * sec, weight: 1, total: 2, until: 11 * sec},
		}},
		"and not one more": {10 * sec, 10, 2, []step{
			{at: 999 * ms, weight: 1, total: 1, until: open},
			{at: 11 * sec, weight: 1, total: 1, until: open},
		}},
		"a heavy newest slot holds for the whole window": {10 * sec, 10, 3, []step{
			{at: 0, weight: 2, total: 2, until: open},
			{at: 4 * sec, weight: 9, total: 11, until: 15 * sec},
		}},
		"an older entry goes into its own slot": {10 * sec, 10, 3, []step{
			{at: 8 * sec, weight: 2, total: 2, until: open},
			{at: 2 * sec, weight: 1, total: 3, until: 13 * sec},
			{at: 13 * sec, weight: 0, total: 2, until: open},
		}},
		"the oldest slot that counts is slots before the newest": {10 * sec, 10, 3, []step{
			{at: 12 * sec, weight: 2, total: 2, until: open},
			{at: 2 * sec, weight: 1, total: 3, until: 13 * sec},
			{at: 2*sec - 1, weight: 1, total: 3, until: 13 * sec, late: true},
		}},
		"the slot is rounded up so that slots cover the window": {10 * time.Nanosecond, 3, 2, []step{ // w = 4
			{at: 3, weight: 1, total: 1, until: open},
			{at: 12, weight: 1, total: 2, until: 16},
			{at: 16, weight: 1, total: 2, until: 28},
		}},
		"one slot": {10 * sec, 1, 2, []step{
			{at: 1 * sec, weight: 1, total: 1, until: open},
			{at: 19 * sec, weight: 1, total: 2, until: 20 * sec},
			{at: 20 * sec, weight: 0, total: 1, until: open},
		}},
		"before 1970": {10 * sec, 10, 2, []step{
			{at: -1, weight: 1, total: 1, until: open},
			{at: 0, weight: 1, total: 2, until: 10 * sec},
			{at: -11 * sec, weight: 1, total: 2, until: 10 * sec, late: true},
		}},
		"a slot between that went empty is forgotten": {4 * sec, 4, 9, []step{
			{at: 0, weight: 1, total: 1, until: open},
			{at: 3 * sec, weight: 1, total: 2, until: open},
			{at: 7 * sec, weight: 1, total: 2, until: open},
			{at: 12 * sec, weight: 1, total: 1, until: open},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			story(t, NewSliding(test.length, test.slots), test.limit, test.steps...)
		})
	}
}

// apisix 13704: its sliding window forgets the previous one at the boundary, so that twice the limit passes around it.
func TestSlidingDoesNotDegradeToFixedAtTheBoundary(t *testing.T) {
	a := NewSliding(time.Minute, 20)
	var s State
	var admitted []int64
	for at := int64(55 * sec); at < int64(65*sec); at += int64(10 * ms) {
		if a.View(s, 100, at).Full(at) {
			continue
		}
		s, _ = a.Add(s, 100, at, 1)
		admitted = append(admitted, at)
	}
	if len(admitted) != 100 {
		t.Errorf("got %d admitted within 10 s around the minute, want 100", len(admitted))
	}
}

// posthog 89726: the previous window's key expired before the current one had read it.
func TestPreviousWindowDoesNotExpireBeforeItIsRead(t *testing.T) {
	for _, a := range all() {
		s, _ := a.Add(nil, 5, int64(90*sec), 5)
		expiry := a.Expiry(s)
		for at := int64(90 * sec); at < expiry; at += int64(sec) {
			if kept, fresh := a.View(s, 5, at), a.View(nil, 5, at); kept.Total > 0 && kept == fresh {
				t.Errorf("%s: nothing left of the entries at %v, before the expiry %v", a.Shape(), at, expiry)
			}
		}
		if c := a.View(s, 5, expiry); c.Total != 0 || c.Full(expiry) {
			t.Errorf("%s: got %+v at its expiry, want an empty window", a.Shape(), c)
		}
	}
}

// gubernator 3982e50: reading a limit moved its reset time.
func TestResetTimeDoesNotMoveOnRead(t *testing.T) {
	for _, a := range all() {
		s, c := a.Add(nil, 5, int64(90*sec), 5)
		for at := int64(90 * sec); at < c.Until; at += int64(100 * ms) {
			if got := a.View(s, 5, at).Until; got != c.Until {
				t.Fatalf("%s: read at %v: got until %v, want %v", a.Shape(), at, got, c.Until)
			}
			blocked := at
			if _, got := a.Add(s, 5, blocked, 0); got.Until != c.Until {
				t.Fatalf("%s: blocked at %v: got until %v, want %v", a.Shape(), at, got.Until, c.Until)
			}
		}
		if a.View(s, 5, c.Until).Full(c.Until) {
			t.Errorf("%s: still full at its until", a.Shape())
		}
	}
}

// all returns one of each algorithm, of about a minute.
func all() []Algorithm {
	return []Algorithm{
		NewFixed(time.Minute), NewCalendar(Hour, time.UTC, 0), NewSliding(time.Minute, 20),
		NewSliding(61*sec, 7), NewLog(time.Minute), NewGCRA(time.Minute, 0), NewGCRA(time.Minute, 2),
	}
}

func TestSlidingSaturates(t *testing.T) {
	a := NewSliding(sec, 4)
	s, c := a.Add(nil, 1e18, 0, math.MaxInt64)
	if c.Total != math.MaxInt64 || c.Until != int64(1250*ms) {
		t.Errorf("got %+v", c)
	}
	s, c = a.Add(s, 1e18, int64(sec), math.MaxInt64)
	if c.Total != math.MaxInt64 || c.Until != int64(2250*ms) {
		t.Errorf("got %+v", c)
	}
	if c = a.View(s, 1e18, int64(1500*ms)); c.Total != math.MaxInt64 {
		t.Errorf("the first entry has left: got %+v, want the second alone", c)
	}
	s, c = a.Add(s, 1, math.MinInt64, 1)
	if c.Place != Late {
		t.Errorf("got %+v, want late", c)
	}
	_, c = a.Add(s, 1, math.MaxInt64, 1)
	if c.Total != 1 || c.Until != math.MaxInt64 {
		t.Errorf("got %+v at the end of time", c)
	}
	if _, c = a.Add(nil, 1, math.MinInt64, 1); c.Total != 1 || !c.Full(math.MinInt64) || c.Start != math.MinInt64 {
		t.Errorf("got %+v at the beginning of time", c)
	}
}

// Memory follows what was seen: a caller with one entry has two integers, and no caller has more than slots+2.
func TestSlidingStateIsShort(t *testing.T) {
	a := NewSliding(time.Minute, 20)
	s, _ := a.Add(nil, 9, 0, 1)
	if len(s) != 2 {
		t.Errorf("got %v, want two integers", s)
	}
	for at := int64(0); at < int64(time.Hour); at += int64(sec) {
		if s, _ = a.Add(s, 9, at, 1); len(s) > 22 {
			t.Fatalf("got %d integers, want at most 22", len(s))
		}
	}
	if s, _ = a.Add(s, 9, int64(2*hr), 1); len(s) != 2 {
		t.Errorf("got %v after an hour of quiet, want two integers", s)
	}
}

// TestASlidingWindowMayHaveAThousandSlots: as many as rules may ask for.
func TestASlidingWindowMayHaveAThousandSlots(t *testing.T) {
	if got := NewSliding(time.Second, MaxSlots).Traits().Slot; got != int64(time.Millisecond) {
		t.Errorf("got slots of %d ns, want a millisecond", got)
	}
}

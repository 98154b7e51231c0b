package window

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"
)

func TestShapesTellWindowsApart(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	shapes := map[string]Algorithm{
		"fixed/60000000000":            NewFixed(time.Minute),
		"fixed/month/Europe/Berlin/15": NewCalendar(Month, berlin, 15),
		"fixed/month/UTC/15":           NewCalendar(Month, time.UTC, 15),
		"fixed/day/UTC/1":              NewCalendar(Day, time.UTC, 15), // days have no anchor
		"sliding/60000000000/20":       NewSliding(time.Minute, 20),
		"sliding/60000000000/10":       NewSliding(time.Minute, 10),
		"log/60000000000":              NewLog(time.Minute),
		"gcra/60000000000":             NewGCRA(time.Minute, 7), // the burst may change under a state
		"pool/60000000000":             NewPool(time.Minute),
	}
	for want, a := range shapes {
		if got := a.Shape(); got != want {
			t.Errorf("got shape %s, want %s", got, want)
		}
	}
}

func TestStatesThatAreNotValid(t *testing.T) {
	tests := []struct {
		a      interface{ Valid(s State) bool }
		states []State
	}{
		{NewFixed(sec), []State{{1}, {1, 0}, {1, -1}, {1, 2, -1}, {1, 0, 3}, {1, 2, 3, 4}}},
		{NewCalendar(Day, time.UTC, 1), []State{{1}, {1, 2}, {1, 1, 1}, {2, 1, 1}, {1, 2, 0}, {1, 2, 3, -1}, {1, 2, 0, 3}, {1, 2, 3, 4, 5}}},
		{NewSliding(sec, 2), []State{{1}, {1, 0}, {1, -1}, {1, 0, 1}, {1, 1, 0}, {1, 1, -1, 1}, {1, 1, 1, 1, 1}}},
		{NewLog(sec), []State{{1}, {1, 1}, {1, 1, 0}, {2, 1, 1}, {2, 1, 1, 1, 1}, {2, 2, 1, 1, 1}, {1, 1, 1, 1}, {0, 1, -1, 2, 1}, {1, 1, 1, 2, 0}}},
		{NewGCRA(sec, 0), []State{{1}, {1, 2}, {1, 2, 1}, {2, 1, 0}, {0, 0, -1}, {0, 0, 0}, {2, 1, 1, 0, 1}, {2, 1, 1, 1, 0}, {2, 1, 1, 1}, append(State{2, 1, 1}, slices.Repeat(State{1}, 2*maxPeriods)...)}},
		{NewGCRA(sec, 0).Coarse(), []State{{1}, {1, 2, 1}, {2, 1, 1, 1, 1}}},
		{NewPool(sec), []State{{1}, {1, 0, 0, 0, 5}, {1, -1, 0, 0, 0, 5}, {1, 0, 0, 0, -1, 5}, {1, 0, 0, 0, 0, 5, 0}}},
		{NewLog(sec).Coarse(), []State{{1}, {1, 0}, {1, 1, 1}, {1, 1, 1, 1}, {1, 0, 2, 1}, {1, 1, 2, 0}, {1, 1, 2, 1, 3, 1}}},
	}
	for _, test := range tests {
		if !test.a.Valid(nil) {
			t.Errorf("%T: a new window is not valid", test.a)
		}
		for _, s := range test.states {
			if test.a.Valid(s) {
				t.Errorf("%T: %v is valid", test.a, s)
			}
		}
	}
}

func TestTheSmallestStatesAreValid(t *testing.T) {
	for _, test := range []struct {
		a      interface{ Valid(s State) bool }
		states []State
	}{
		{NewFixed(sec), []State{{0, 1}, {0, 1, 0}}},
		{NewCalendar(Day, time.UTC, 1), []State{{0, 1, 1}, {0, 1, 1, 0}}},
		{NewSliding(sec, 2), []State{{0, 1}, {0, 1, 1}, {0, 1, 0, 1}}},
		{NewLog(sec), []State{{1, 0, 1}, {2, 0, 1, 1, 1}}},
		{NewGCRA(sec, 0), []State{{math.MaxInt64, math.MaxInt64, 0}, {1, 1, 1}, {1, 0, 1}, {1, 0, 1, 1, 1}, append(State{1, 0, 1}, slices.Repeat(State{1}, 2*maxPeriods-2)...)}},
		{NewGCRA(sec, 0).Coarse(), []State{{1, 0, 1}}},
		{NewPool(sec), []State{{0, 0, 0, 0, 0, 0}, {-5, 0, 0, 0, 0, -1}}},
		{NewLog(sec).Coarse(), []State{nil, {0, 1}, {0, 1, 1, 1}}},
	} {
		for _, s := range test.states {
			if !test.a.Valid(s) {
				t.Errorf("%T: %v is not valid", test.a, s)
			}
		}
	}
}

// TestAStateExpiresWhenItsLastEntryCannotMatter, and not later: rows are kept until then.
func TestAStateExpiresWhenItsLastEntryCannotMatter(t *testing.T) {
	at := 3*second + 1
	for _, test := range []struct {
		a    interface{ Expiry(s State) int64 }
		s    State
		want int64
	}{
		{NewFixed(10 * time.Second), State{0, 2}, 12 * second}, // two seconds of grace
		{NewFixed(time.Second), State{3, 2}, 5 * second},       // the grace is no longer than a window
		{NewCalendar(Hour, time.UTC, 1), State{0, 3600 * second, 2}, 3602 * second},
		{NewSliding(10*time.Second, 5), State{1, 2}, 14 * second}, // slots of 2 s; this one and five more
		{NewLog(10 * time.Second), State{2, at, 2}, at + 10*second},
		{NewLog(10 * time.Second).Coarse(), State{second, 1, at, 2}, at + 10*second},
		{NewGCRA(10*time.Second, 0), State{5*second + 1, at, 2 * second}, 15*second + 1}, // ten seconds of memory
		{NewPool(10 * time.Second), State{1, 2, 0, 0, 0, at}, 15 * second},               // a tally has it until then
		{NewPool(10 * time.Second), State{1, 2, 0, 0, 0, 16 * second}, 16 * second},      // it owes until then
		{NewGCRA(time.Hour, 0), State{5*second + 1, at, 2 * second}, 65*second + 1},      // which is at most a minute
	} {
		if got := test.a.Expiry(test.s); got != test.want {
			t.Errorf("%T: %v: got %v, want %v", test.a, test.s, time.Duration(got), time.Duration(test.want))
		}
		if got := test.a.Expiry(nil); got != math.MinInt64 {
			t.Errorf("%T: a new window expires at %d, want it expired from the first moment on", test.a, got)
		}
	}
}

// Whatever integers come back from a disk or a network: if they are valid they can be used, and stay valid.
func FuzzValidStatesCanBeUsed(f *testing.F) {
	seed := func(v ...int64) []byte { return encode(v) }
	f.Add(seed(1_700_000_000, 3), int64(1e18), int64(1), int64(5))
	f.Add(seed(1_700_000_000, 3, 0, 2), int64(1e18), int64(1), int64(5))
	f.Add(seed(3, 1, 1, 2, 2), int64(3), int64(1), int64(2))
	f.Add(seed(36e9, 35e9, 1e9, 4e9, 1e9, 4e9, 1e9), int64(31e9), int64(5), int64(60))
	f.Add(seed(1<<63-1, 1<<62, 1<<62, 1<<62, 1<<63-1), int64(-1<<62), int64(1<<40), int64(1))
	f.Add(seed(36e9, 72e9, 3, 5), int64(35e9), int64(1), int64(2))
	f.Add(seed(-1<<63, 1<<63-1, 1), int64(-1<<63), int64(1<<63-1), int64(1))
	f.Add(seed(1<<63-1), int64(1<<63-1), int64(1), int64(1<<63-1))
	f.Add(seed(0, 0, 0), int64(35e9), int64(1), int64(1)) // a bucket with a period of no length
	f.Add(seed(-1<<63, 1<<63-1, 1<<63-1, 0, 5, 1<<63-1), int64(1<<62), int64(1<<63-1), int64(1))
	f.Add(seed(1<<63-1, 5, 0, 0, 0, -1<<63), int64(-1<<63), int64(1), int64(1<<63-1))
	f.Fuzz(func(t *testing.T, written []byte, at, weight, limit int64) {
		var s State
		for r := bytes.NewReader(written); r.Len() > 0; {
			v, err := binary.ReadVarint(r)
			if err != nil {
				return
			}
			s = append(s, v)
		}
		for _, a := range append(all(), NewFixed(1), NewSliding(1, 1), NewLog(1), NewGCRA(1, 1e18), NewCalendar(Month, time.UTC, 31), NewPool(sec), NewPool(1)) {
			if !a.Valid(s) {
				continue
			}
			state := slices.Clone(s)
			view := a.View(state, limit, at)
			a.Expiry(state)
			if !slices.Equal(state, s) {
				t.Fatalf("%s: View changed %v to %v", a.Shape(), s, state)
			}
			next, c := a.Add(state, limit, at, weight)
			if !a.Valid(next) {
				t.Fatalf("%s: %v became %v, which is not valid", a.Shape(), s, next)
			}
			if c.Place != view.Place || c.Total < 0 || c.Until < at {
				t.Fatalf("%s: %v: got %+v after view %+v", a.Shape(), s, c, view)
			}
		}
	})
}

// In steady state nothing allocates; only a log moves its entries now and then, when its room is used up (the average is
// rounded down).
func TestNothingAllocatesPerEntry(t *testing.T) {
	for _, a := range append(all(), NewCalendar(Month, zone(t, "Europe/Berlin"), 15), NewPool(time.Minute)) {
		var s State
		now := int64(1_700_000_000 * sec)
		tick := func() {
			now += int64(700 * ms)
			s, _ = a.Add(s, 100, now, 1)
			a.View(s, 100, now)
		}
		for range 1000 {
			tick()
		}
		if n := testing.AllocsPerRun(1000, tick); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", a.Shape(), n)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	loc := zone(b, "Europe/Berlin")
	for _, bench := range []struct {
		name  string
		a     Algorithm
		limit int64
	}{
		{"fixed", NewFixed(time.Minute), 100},
		{"calendar", NewCalendar(Month, loc, 15), 100},
		{"sliding", NewSliding(time.Minute, 20), 100},
		{"sliding_open", NewSliding(time.Minute, 20), 1e9},
		{"gcra", NewGCRA(time.Minute, 0), 100},
		{"pool", NewPool(time.Minute), 100},
		{"log_100", NewLog(time.Minute), 100},
		{"log_10000", NewLog(time.Minute), 10_000},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var s State
			now := int64(1_700_000_000 * sec)
			for b.Loop() {
				now += int64(20 * ms)
				s, _ = bench.a.Add(s, bench.limit, now, 1)
			}
		})
	}
}

func BenchmarkNewCalendarWindow(b *testing.B) {
	a := NewCalendar(Month, zone(b, "Europe/Berlin"), 15)
	b.ReportAllocs()
	s := make(State, 0, 3)
	for b.Loop() {
		s, _ = a.Add(s[:0], 100, int64(1_700_000_000*sec), 1)
	}
}

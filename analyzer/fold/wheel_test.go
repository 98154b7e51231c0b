package fold

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/schemas"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)
)

func TestWheelStories(t *testing.T) {
	type turn struct {
		at     int64
		due    []uint32
		turned bool
	}
	tests := map[string]struct {
		rows  []int64 // when each expires
		turns []turn
	}{
		"a row goes in the minute after its own": {[]int64{90 * second}, []turn{
			{0, nil, true},
			{60 * second, nil, true},
			{119 * second, nil, false},
			{120 * second, []uint32{0}, true},
			{240 * second, nil, true},
		}},
		"a long silence": {[]int64{90 * second, 10 * minute, 10 * hour}, []turn{
			{0, nil, true},
			{hour, []uint32{0, 1}, true},
			{100 * hour, []uint32{2}, true},
		}},
		"before the epoch": {[]int64{-90 * second, 0}, []turn{
			{-10 * minute, nil, true},
			{-minute, []uint32{0}, true},
			{minute, []uint32{1}, true},
		}},
		"all of time": {[]int64{math.MinInt64, math.MaxInt64 - 1, math.MaxInt64}, []turn{
			{math.MinInt64, nil, true},
			{0, []uint32{0}, true},
			{math.MaxInt64, nil, true}, // the last minute never passes
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var w wheel
			for i, at := range test.rows {
				w.schedule(uint32(i), at) // small
			}
			for _, turn := range test.turns {
				due, turned := w.turn(turn.at)
				if !slices.Equal(due, turn.due) || turned != turn.turned {
					t.Errorf("at %v: got %v, %v, want %v, %v", time.Duration(turn.at), due, turned, turn.due, turn.turned)
				}
			}
		})
	}
}

// TestRowsAreDroppedInOneOrder, also after a silence of many minutes: which row the next caller gets, and so which one is displaced later,
// follows from the log and from no map of a process.
func TestRowsAreDroppedInOneOrder(t *testing.T) {
	var w wheel
	w.turn(0)
	var want []uint32
	for i := range uint32(50) {
		w.schedule(i, int64(50-i)*minute)
		want = append(want, 49-i)
	}
	if due, _ := w.turn(hour * 24 * 365); !slices.Equal(due, want) {
		t.Errorf("got %v, want those that expire first before the others", due)
	}
}

func TestWheelLooksAgain(t *testing.T) {
	var w wheel
	w.turn(10 * minute)
	w.schedule(7, 3*minute) // it came late: it is looked at in the next minute
	w.schedule(8, math.MaxInt64)
	if due, _ := w.turn(11 * minute); !slices.Equal(due, []uint32{7}) {
		t.Errorf("got %v, want 7", due)
	}
	if len(w.buckets) != 0 {
		t.Errorf("got %d buckets, want none: what never expires is in none", len(w.buckets))
	}
	if !w.passed(3*minute) || !w.passed(11*minute-1) || w.passed(11*minute) {
		t.Error("a minute has passed when the next one is reached")
	}
}

// expirySet has windows and closures that end at different times.
var expirySet = []string{
	"{name: a, callers: key, limit: 3, window: 10s, algorithm: fixed}",
	"{name: b, callers: key, limit: 5, window: 1m, slots: 4, close_for: 7m, escalate: {factor: 2, max: 20m, forget: 3m}}",
	"{name: c, callers: key, limit: 4, window: 5m, algorithm: log}",
	"{name: d, callers: key, limit: 4, window: 2m, algorithm: gcra}",
	"{name: e, callers: key, limit: 50, window: hour}",
}

// TestRowsGoByTheLogAlone: which rows there are depends on the log, and not on restarts, which put every row into
// its bucket anew.
func TestRowsGoByTheLogAlone(t *testing.T) {
	set := foldtest.Rules(t, expirySet...)
	rapid.Check(t, func(t *rapid.T) {
		var kept fakeStore
		plain, restarted := New(set, Options{}), New(set, Options{})
		now := int64(1_000_000) * minute
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			now += rapid.OneOf(rapid.Int64Range(0, 10*second), rapid.Int64Range(0, 12*minute)).Draw(t, "pause")
			e := schemas.Entry{
				Time: now - rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, hour)).Draw(t, "late by"),
				Kind: "key", ID: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id"),
				Count: rapid.Uint32Range(1, 4).Draw(t, "count"),
			}
			plain.Entry(&e)
			restarted.Entry(&e)
			if rapid.Bool().Draw(t, "restart") {
				kept.commit(t, restarted)
				restarted = kept.restore(t, set, Options{})
			}
			if got, want := rowsOf(restarted), rowsOf(plain); !slices.Equal(got, want) {
				t.Fatalf("after %+v: got rows %q, want %q", e, got, want)
			}
		}
	})
}

// rowsOf returns all rows a fold holds, as the store would, sorted.
func rowsOf(f *Fold) []string {
	var rows []string
	f.table.each(func(_ uint32, r *row) bool {
		key, value := f.table.encode(nil, r)
		rows = append(rows, string(key)+"="+string(value))
		return true
	})
	for _, p := range f.scanPools() {
		rows = append(rows, string(p.Key)+"="+string(p.Value))
	}
	for i := range f.pools.list {
		p := f.pools.list[i]
		p.above = maps.Clone(p.above) // a tally forgets who has only asked since
		if tally := f.tally(&p, integer.FloorDiv(f.table.now, p.window.Quarter())-1); tally.Total > 0 {
			rows = append(rows, fmt.Sprintf("tally %v", tally))
		}
	}
	slices.Sort(rows)
	return rows
}

// TestExpiryFreesMemory: a day of callers who each come once does not pile up, in memory or in the store.
func TestExpiryFreesMemory(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 1m, close_for: 1m}"), Options{})
	var kept fakeStore
	var e schemas.Entry
	bound := 0
	for n := range 24 * 60 * 30 { // thirty a minute
		e = schemas.Entry{Time: int64(n) * 2 * second, Kind: "key", ID: string(rune('a'+n%26)) + time.Duration(n).String(), Count: 3}
		f.Entry(&e)
		f.TakeChanges()
		if n%100 == 0 {
			kept.commit(t, f)
		}
		bound = max(bound, f.table.used)
	}
	kept.commit(t, f)
	const live = 30 * (1 + 1 + 10 + 3) // window, slack, and the minutes until they are looked at
	if bound > live {
		t.Errorf("got %d rows at once, want at most %d", bound, live)
	}
	if f.table.Made() > 1024 || len(kept.rows) > live || len(f.table.wheel.buckets) > 20 || len(f.table.removed) != 0 {
		t.Errorf("got %d places of rows, %d rows stored, %d buckets, %d to remove", f.table.Made(), len(kept.rows), len(f.table.wheel.buckets), len(f.table.removed))
	}
	if got := f.Stats(); got.Expired == 0 || got.Rows != f.table.used {
		t.Errorf("got %+v", got)
	}
}

// TestPreviousWindowIsThereWhenItIsRead: an idle caller's row outlives its window, and a late entry finds what it knew.
func TestPreviousWindowIsThereWhenItIsRead(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 10, window: 1m, slots: 6}"), Options{})
	entry := func(at int64, id string, count uint32) {
		f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: id, Count: count})
	}
	entry(0, "a", 9)
	entry(9*minute, "other", 1)
	entry(30*second, "a", 1)
	if changes := f.TakeChanges(); len(changes) != 1 || changes[0].Closure.CloseAt != 30*second {
		t.Errorf("got %+v, want the close at 30 s that an entry nine minutes late completes", changes)
	}
	entry(10*minute, "a", 9)
	if changes := f.TakeChanges(); len(changes) != 0 {
		t.Errorf("got %+v, want nothing left of the first minute", changes)
	}
}

package fold

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// TestAWalkVisitsEachRowOnce: rows come and go between the pieces of a walk, and rules change. Each row that was there all the time is
// visited once; none is visited that is not there.
func TestAWalkVisitsEachRowOnce(t *testing.T) {
	lines := []string{"{name: a, callers: key, limit: 5, window: 1m, algorithm: fixed}", "{name: b, callers: key, limit: 9, window: 1h, algorithm: fixed}"}
	one, both := foldtest.Rules(t, lines[0]), foldtest.Rules(t, lines...)
	rapid.Check(t, func(t *rapid.T) {
		f := New(both, Options{})
		var w Walk
		stays, visited := make(map[string]bool), make(map[string]int)
		mark := func() {
			f.View().Rows(f.LogTime(), func(r Row) bool { stays[r.Rule.Name+" "+r.ID] = true; return true })
		}
		now := int64(0)
		send := func(what string) {
			for range rapid.IntRange(0, 20).Draw(t, what) {
				rowEntry(f, now, fmt.Sprint(rapid.IntRange(0, 100).Draw(t, "id")), 1)
			}
		}
		send("before")
		mark()
		pieces := 0
		for more := true; more; pieces++ {
			var again bool
			piece := make(map[string]int)
			more, again = f.View().WalkRows(&w, rapid.IntRange(1, 30).Draw(t, "places"), now, func(r *Row) { piece[r.Rule.Name+" "+r.ID]++ })
			if again {
				clear(visited)
				clear(stays)
				mark()
			}
			for key, n := range piece {
				visited[key] += n
			}
			if pieces == 0 && again {
				t.Fatal("the first piece says that it begins again")
			}
			switch rapid.IntRange(0, 6).Draw(t, "then") {
			case 0:
				now += 20 * minute
				f.Advance(now) // rows of a expire
			case 1, 2:
				send("between")
			case 3:
				if pieces < 5 {
					f.SetRules(map[bool]*rules.Set{true: one, false: both}[rapid.Bool().Draw(t, "fewer rules")])
				}
			}
			held := make(map[string]bool)
			f.View().Rows(now, func(r Row) bool { held[r.Rule.Name+" "+r.ID] = true; return true })
			for key := range stays {
				if !held[key] {
					delete(stays, key)
				}
			}
		}
		for key := range stays {
			if visited[key] != 1 {
				t.Fatalf("%s was there all the time, and was visited %d times: %v", key, visited[key], visited)
			}
		}
	})
}

func TestAWalkThatHasEndedBeginsAgain(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 5, window: 1m}"), Options{})
	var w Walk
	if more, again := f.View().WalkRows(&w, 10, 0, func(*Row) { t.Error("visited a row of an empty table") }); more || again {
		t.Errorf("an empty table: got %v, %v", more, again)
	}
	for i := range 3000 {
		rowEntry(f, second, fmt.Sprint(i), 2)
	}
	for round := range 2 {
		seen, pieces := make(map[string]int64), 0
		for more := true; more; pieces++ {
			n := 0
			more, _ = f.View().WalkRows(&w, 1<<20, second, func(r *Row) { seen[r.ID] += r.Total; n++ })
			if n > MaxWalk {
				t.Fatalf("got a piece of %d rows, want at most %d", n, MaxWalk)
			}
		}
		if len(seen) != 3000 || pieces != 3 || seen["17"] != 2 {
			t.Errorf("round %d: got %d callers in %d pieces, want 3000 in 3", round, len(seen), pieces)
		}
	}
}

// BenchmarkWalkPiece is for how long a piece of a walk holds up the fold, of a million rows.
func BenchmarkWalkPiece(b *testing.B) {
	f := New(foldtest.Rules(b, "{name: r, callers: ip, limit: 1000000, window: 1m}"), Options{MaxRows: 1 << 20, NoStore: true})
	entries := foldtest.ZipfEntries(4 << 20)
	for i := range entries {
		f.Entry(&entries[i])
	}
	var w Walk
	var sum int64
	for b.Loop() {
		f.View().WalkRows(&w, MaxWalk, f.table.now, func(r *Row) { sum += r.Total })
	}
	if sum == 0 {
		b.Fatal("visited nothing")
	}
	b.ReportMetric(float64(f.table.used), "rows")
}

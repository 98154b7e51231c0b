package fold

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// sourceFrame returns a frame of lines of a source, which is not encoded yet.
func sourceFrame(o Options, entries ...schemas.Entry) schemas.Frame {
	return schemas.Frame{
		Producer: foldtest.Producer(1), Source: true, Partitions: uint32(max(o.Partitions, 1)), // small
		Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: entries,
	}
}

// lineEntries returns the entries of line n of a source: requests of a few callers of two kinds.
func lineEntries(n int) []schemas.Entry {
	at := int64(n) * second
	return []schemas.Entry{
		{Time: at, Kind: "ip", ID: fmt.Sprintf("10.0.0.%d", n%5), Count: 1, Offset: int64(n) * 100},
		{Time: at, Kind: "key", ID: fmt.Sprint("k", n%3), Count: 1, Offset: int64(n) * 100},
		{Time: at, Kind: "key", ID: fmt.Sprint("k", n%3), Count: 1, Response: true, Cost: 2, Offset: int64(n) * 100},
	}
}

func TestLinesOfASource(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: all, callers: key, limit: 1000, window: 1h, algorithm: fixed}"), Options{})
	e := func(offset int64, count uint32) schemas.Entry {
		return schemas.Entry{Time: second, Kind: "key", ID: "a", Count: count, Offset: offset}
	}
	for i, step := range []struct {
		what       string
		frame      schemas.Frame
		total      int64
		duplicates uint64
	}{
		{"the first line is at offset 0", sourceFrame(f.opts, e(0, 1)), 1, 0},
		{"again", sourceFrame(f.opts, e(0, 1)), 1, 1},
		{"three entries of one line", sourceFrame(f.opts, e(10, 1), e(10, 2), e(10, 4)), 8, 1},
		{"cut elsewhere: old lines and a new one", sourceFrame(f.opts, e(0, 1), e(10, 1), e(10, 2), e(10, 4), e(20, 8)), 16, 5},
		{"nothing", sourceFrame(f.opts), 16, 5},
		{"offsets may jump", sourceFrame(f.opts, e(1<<40, 16)), 32, 5},
		{"and not go back", sourceFrame(f.opts, e(1<<40-1, 1), e(30, 1)), 32, 7},
		{"to the last", sourceFrame(f.opts, e(1<<63-1, 32), e(1<<63-1, 64)), 128, 7},
		{"again", sourceFrame(f.opts, e(1<<63-1, 32)), 128, 8},
	} {
		if err := f.Frame(Record{Offset: int64(i), Time: minute, Value: foldtest.Encode(t, step.frame)}); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := totals(f)["all a"]; got != step.total || f.Stats().Duplicate != step.duplicates {
			t.Errorf("%s: got %d counted and %d duplicates, want %d and %d", step.what, got, f.Stats().Duplicate, step.total, step.duplicates)
		}
	}
	other := sourceFrame(f.opts, e(0, 1))
	other.Producer[0]++
	if err := f.Frame(Record{Time: minute, Value: foldtest.Encode(t, other)}); err != nil || totals(f)["all a"] != 129 {
		t.Errorf("another source: got %v, %d counted, want 129", err, totals(f)["all a"])
	}
}

// totals returns what each rule and caller has in its window, as of log time.
func totals(f *Fold) map[string]int64 {
	all := make(map[string]int64)
	f.View().Rows(f.LogTime(), func(r Row) bool {
		all[r.Rule.Name+" "+r.ID] = r.Total
		return true
	})
	return all
}

// TestARestartCutsFramesAnywhere: whoever reads lines into frames starts again at any line, and cuts frames elsewhere
// than before; the analyzer starts again too. Each line counts once in each partition.
func TestARestartCutsFramesAnywhere(t *testing.T) {
	set := foldtest.Rules(t,
		"{name: ips, callers: ip, limit: 7, window: 1h, algorithm: fixed}",
		"{name: keys, callers: key, limit: 9, window: 1m, slots: 6}",
		"{name: costs, callers: key, limit: 30, window: 1m, algorithm: gcra, measure: cost}")
	rapid.Check(t, func(t *rapid.T) {
		const lines, partitions = 60, 3
		key := schemas.DefaultPartitionKey()
		var folds, want [partitions]*Fold
		var kept [partitions]fakeStore
		for p := range folds {
			folds[p] = New(set, Options{Partition: p, Partitions: partitions})
			want[p] = New(set, Options{Partition: p, Partitions: partitions})
		}
		for n := range lines {
			for _, e := range lineEntries(n) {
				want[schemas.Partition(key.Hash(e.Kind, e.ID), partitions)].Entry(&e)
			}
		}
		for next := 0; next < lines; {
			last := min(lines, next+rapid.IntRange(1, 20).Draw(t, "lines"))
			var frames [partitions][]schemas.Entry
			for n := next; n < last; n++ {
				for _, e := range lineEntries(n) {
					p := schemas.Partition(key.Hash(e.Kind, e.ID), partitions)
					frames[p] = append(frames[p], e)
				}
			}
			// Some partitions get their frame, and others not, before the reader stops.
			reached := rapid.IntRange(0, 1<<partitions-1).Draw(t, "partitions reached")
			if rapid.Bool().Draw(t, "all of them") {
				reached = 1<<partitions - 1
			}
			for p, entries := range frames {
				if reached>>p&1 == 0 || len(entries) == 0 {
					continue
				}
				rec := Record{Time: hour, Value: foldtest.Encode(t, sourceFrame(folds[p].opts, entries...))}
				if err := folds[p].Frame(rec); err != nil {
					t.Fatal(err)
				}
				kept[p].commit(t, folds[p])
				if rapid.IntRange(0, 3).Draw(t, "analyzer restarts") == 0 {
					folds[p] = kept[p].restore(t, set, folds[p].opts)
				}
			}
			if reached == 1<<partitions-1 {
				next = last
			} else {
				next = max(0, next-rapid.IntRange(0, 10).Draw(t, "starts again earlier by"))
			}
		}
		for p := range folds {
			if got, want := totals(folds[p]), totals(want[p]); !maps.Equal(got, want) {
				t.Fatalf("partition %d: got %v, want %v", p, got, want)
			}
			if got, want := folds[p].Digest(0), want[p].Digest(0); got != want {
				t.Fatalf("partition %d: got digest %#x, want %#x", p, got, want)
			}
		}
	})
}

// TestAnEmptyFrameIsRemembered: what is in memory is in the store, also of a source that has said nothing yet.
func TestAnEmptyFrameIsRemembered(t *testing.T) {
	set := foldtest.Rules(t, "{name: all, callers: key, limit: 1000, window: 1h}")
	f := New(set, Options{MaxSenders: 1})
	var kept fakeStore
	if err := f.Frame(Record{Time: minute, Value: foldtest.Encode(t, sourceFrame(f.opts))}); err != nil {
		t.Fatal(err)
	}
	kept.commit(t, f)
	f = kept.restore(t, set, f.opts)
	if got := f.Stats().Senders; got != 1 {
		t.Errorf("got %d senders after a restart, want 1", got)
	}
	first := sourceFrame(f.opts, schemas.Entry{Time: second, Kind: "key", ID: "a", Count: 1})
	if err := f.Frame(Record{Time: minute, Value: foldtest.Encode(t, first)}); err != nil || totals(f)["all a"] != 1 {
		t.Errorf("got %v, %v, want the line at offset 0 counted", err, totals(f))
	}
}

// TestLinesSentAgainAfterALongPauseCountOnce: a reader of two files was off, for up to as long as a window may be. The lines that the other
// file has got meanwhile come first, and move log time. Then the last lines of the first file come again, because their place was not saved.
func TestLinesSentAgainAfterALongPauseCountOnce(t *testing.T) {
	set := foldtest.Rules(t,
		"{name: month, callers: key, limit: 1000, window: month}",
		"{name: year, callers: key, limit: 1000, window: year}",
		"{name: longest, callers: key, limit: 1000, window: 366d, algorithm: log}")
	for name, off := range map[string]int64{"25 hours": 25 * hour, "40 days": 40 * 24 * hour, "365 days": 365 * 24 * hour} {
		t.Run(name, func(t *testing.T) {
			frame := func(source int, at int64, caller string) []byte {
				fr := sourceFrame(Options{})
				fr.Producer = foldtest.Producer(source)
				for n := range int64(3) {
					fr.Entries = append(fr.Entries, schemas.Entry{Time: at + n, Kind: "key", ID: caller, Count: 1, Offset: 100 * n})
				}
				return foldtest.Encode(t, fr)
			}
			f := New(set, Options{})
			fold := func(at int64, value []byte) {
				if err := f.Frame(Record{Time: at + second, Value: value}); err != nil {
					t.Fatal(err)
				}
			}
			var kept fakeStore
			last := frame(1, frameNow, "first")
			fold(frameNow, last)
			kept.commit(t, f)
			f = kept.restore(t, set, Options{})
			fold(frameNow+off, frame(2, frameNow+off, "other"))
			fold(frameNow+off, last)
			if got := f.Stats(); got.Entries != 3 || got.Duplicate != 3 {
				t.Errorf("got %d entries counted and %d known after the restart, want the 3 of the other file, and the 3 of the first", got.Entries, got.Duplicate)
			}
			if got := totals(f)["longest first"]; got != 3 {
				t.Errorf("got %d requests of the first file in the longest window, want 3", got)
			}
		})
	}
}

package fold

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// BenchmarkFoldEntry is one entry of a caller that is known, over a million of them.
func BenchmarkFoldEntry(b *testing.B) {
	entries := foldtest.ZipfEntries(1 << 20)
	for _, name := range []string{"fixed", "sliding", "gcra", "pool"} {
		b.Run(name, func(b *testing.B) {
			f := New(foldtest.Rules(b, foldtest.BenchRules()[name]), Options{MaxRows: 1 << 20})
			for i := range entries {
				f.Entry(&entries[i])
			}
			last := entries[len(entries)-1].Time - entries[0].Time
			b.ReportAllocs()
			n, shift := 0, last
			for b.Loop() {
				e := entries[n]
				e.Time += shift
				f.Entry(&e)
				if n++; n == len(entries) {
					n, shift = 0, shift+last
					f.TakeChanges()
				}
			}
			b.ReportMetric(float64(f.table.used), "rows")
		})
	}
}

// BenchmarkFoldFrame is what an owner does for a frame of 512 entries: check, decode, dedupe, place and count.
func BenchmarkFoldFrame(b *testing.B) {
	const size = 512
	entries := foldtest.ZipfEntries(1 << 20)
	for _, name := range []string{"fixed", "sliding", "gcra", "pool"} {
		b.Run(name, func(b *testing.B) {
			f := New(foldtest.Rules(b, foldtest.BenchRules()[name]), Options{MaxRows: 1 << 20})
			var values [][]byte
			for n := 0; n+size <= len(entries); n += size {
				values = append(values, foldtest.Encode(b, foldtest.Frame(uint64(len(values)+1), frameNow, entries[n:n+size]...)))
			}
			rec := Record{Time: entries[len(entries)-1].Time}
			for _, rec.Value = range values {
				_ = f.Frame(rec)
			}
			f.dedupe = newDedupe(10) // the same frames again, as if they were new
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				rec.Value = values[n]
				_ = f.Frame(rec)
				if n++; n == len(values) {
					f.dedupe, n = newDedupe(10), 0
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/entry")
			if f.Stats().Duplicate > 0 {
				b.Fatal("folded duplicates")
			}
		})
	}
}

// TestEntriesOfKnownCallersDoNotAllocate: of those who are open, and of those who are closed already.
func TestEntriesOfKnownCallersDoNotAllocate(t *testing.T) {
	for name, rule := range foldtest.BenchRules() {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, rule), Options{})
			e := schemas.Entry{Time: frameNow, Kind: "ip", ID: "10.0.0.1", Count: 1}
			f.Entry(&e)
			if n := testing.AllocsPerRun(100, func() { f.Entry(&e) }); n != 0 {
				t.Errorf("got %v allocations, want 0", n)
			}
		})
	}
}

func TestARowFillsTwoLinesOfCache(t *testing.T) {
	if got := reflect.TypeFor[row]().Size(); got != 128 {
		t.Errorf("got %d bytes, want 128", got)
	}
}

// BenchmarkFoldEntryHolds is BenchmarkFoldEntry under a rule with holds: an arrival, and the response of an earlier request.
func BenchmarkFoldEntryHolds(b *testing.B) {
	entries := foldtest.ZipfEntries(1 << 18)
	f := New(foldtest.Rules(b, "{name: r, callers: ip, limit: 1000000000, window: 1m, measure: cost, charge: arrival, hold: {estimate: 1000}}"),
		Options{MaxRows: 1 << 20, Predict: rules.PredictEarly, NoStore: true})
	n := 0
	for b.Loop() {
		e := entries[n]
		e.Arrived = schemas.Tick(e.Time)
		f.Entry(&e)
		e.Response, e.Cost = true, 900
		e.Time += int64(time.Second)
		f.Entry(&e)
		n = (n + 1) % len(entries)
	}
}

// BenchmarkTally is a tally of 250,000 callers, of whom a thousand ask for as much as is protected.
func BenchmarkTally(b *testing.B) {
	f := New(foldtest.Rules(b, "{name: r, callers: ip, capacity: 1000000, window: 1m}"), Options{NoStore: true})
	for n := range DefaultMaxRows {
		e := schemas.Entry{Time: frameNow, Kind: "ip", ID: strconv.Itoa(n), Count: 1}
		if n < 1000 {
			e.Count = 1000 + uint32(n)
		}
		f.Entry(&e)
	}
	p, quarter := &f.pools.list[0], frameNow/(15*second)
	for b.Loop() {
		if t := f.tally(p, quarter); len(t.Classes) < 4 {
			b.Fatalf("got %+v, want four classes or more", t)
		}
	}
}

package fold

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// BenchmarkFoldFramePartition is BenchmarkFoldFrame for one of four partitions, as most analyzers have.
func BenchmarkFoldFramePartition(b *testing.B) {
	const size, partitions = 512, 4
	var entries []schemas.Entry
	for _, e := range foldtest.ZipfEntries(1 << 21) {
		if schemas.Partition(schemas.DefaultPartitionKey().Hash(e.Kind, e.ID), partitions) == 0 {
			entries = append(entries, e)
		}
	}
	for _, name := range []string{"fixed", "sliding", "gcra"} {
		b.Run(name, func(b *testing.B) {
			f := New(foldtest.Rules(b, foldtest.BenchRules()[name]), Options{MaxRows: 1 << 20, Partitions: partitions})
			var values [][]byte
			for n := 0; n+size <= len(entries); n += size {
				fr := foldtest.Frame(uint64(len(values)+1), frameNow, entries[n:n+size]...)
				fr.Partitions = partitions
				values = append(values, foldtest.Encode(b, fr))
			}
			rec := Record{Time: entries[len(entries)-1].Time}
			for _, rec.Value = range values {
				_ = f.Frame(rec)
			}
			f.dedupe = newDedupe(10)
			n := 0
			for b.Loop() {
				rec.Value = values[n]
				_ = f.Frame(rec)
				if n++; n == len(values) {
					f.dedupe, n = newDedupe(10), 0
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/entry")
		})
	}
}

package store

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/509da70d/floodgate/store/rows"
)

// newRows returns n changes of new rows, of the size that a window of a caller has.
func newRows(n int, value byte) []Change {
	changes := make([]Change, n)
	for i := range changes {
		key := fmt.Appendf(nil, "per-ip\x00ip\x00203.0.%d.%d/%d", i>>8&0xff, i&0xff, i>>16)
		changes[i] = Change{Key: key, Value: binary.LittleEndian.AppendUint64([]byte{value, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, uint64(i))}
	}
	return changes
}

// BenchmarkCommit changes the same 5000 rows again and again, fsync and all.
func BenchmarkCommit(b *testing.B) {
	for _, noSync := range []bool{false, true} {
		b.Run(fmt.Sprint("nosync=", noSync), func(b *testing.B) {
			o := quiet()
			o.NoSync = noSync
			s, err := Open(b.TempDir(), o)
			if err != nil {
				b.Fatal(err)
			}
			changes := newRows(5000, 0)
			next := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				next++
				for i := range changes {
					if next > 1 {
						changes[i].Old = rows.Sum(changes[i].Key, changes[i].Value)
					}
					changes[i].Value[0]++
				}
				if err := s.Commit(Checkpoint{Next: next}, changes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(changes))/b.Elapsed().Seconds(), "rows/s")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkOpen opens a store of 500 000 rows, loads and verifies them, and closes it.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(dir, quiet())
	if err != nil {
		b.Fatal(err)
	}
	rows := newRows(500_000, 0)
	for at := 0; at < len(rows); at += 10_000 {
		if err := s.Commit(Checkpoint{Next: int64(at)}, rows[at:at+10_000]); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		if s, err = Open(dir, quiet()); err != nil {
			b.Fatal(err)
		}
		if err := s.Check(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkSum(b *testing.B) {
	row := newRows(1, 0)[0]
	for b.Loop() {
		rows.Sum(row.Key, row.Value)
	}
}

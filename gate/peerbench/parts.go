package main

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

// part is one step of a lookup, at the speed of this machine. A lookup cannot be faster than the steps that it needs.
type part struct {
	name string
	work func(keys []string, worker int) // once for each key
}

// parts measures all parts.
func (b *bench) parts(ctx context.Context) error {
	_, asked := crowd(1, few)
	loop := &contender{subject: peers.Loop{}}
	trials, all := []meter.Work{loop.work(lookup{asked: asked})}, parts(asked)
	for _, p := range all {
		trials = append(trials, func(worker int) int {
			p.work(asked, worker)
			return len(asked)
		})
	}
	measured, err := b.spread(ctx, trials...)
	if err != nil {
		return err
	}
	grid := report.Grid{Title: "what lookups are made of", Unit: "ns", Cases: []string{"once"}}
	for i, p := range all {
		grid.Lines = append(grid.Lines, report.Line{Subject: p.name, Values: [][]float64{values(measured)(i + 1)}})
	}
	b.report.Grids = append(b.report.Grids, grid)
	return nil
}

// parts returns the parts. Each worker has variables of its own: the cost of sharing them is not measured.
func parts(asked []string) []part {
	var words [maxWorkers * padding]atomic.Int64
	own := func(worker int) *atomic.Int64 { return &words[worker*padding] }
	seed, known := maphash.MakeSeed(), copies(asked)
	ps := []part{
		{"an atomic load", func(keys []string, worker int) {
			w, sum := own(worker), int64(0)
			for range keys {
				sum += w.Load()
			}
			w.Store(sum)
		}},
		{"a hash/maphash of an id of 22 bytes", func(keys []string, worker int) {
			sum := uint64(0)
			for _, k := range keys {
				sum += maphash.String(seed, k)
			}
			own(worker).Store(int64(sum))
		}},
		{"a comparison of two such ids", func(keys []string, worker int) {
			equal := int64(0)
			for i, k := range keys {
				if k == known[i] {
					equal++
				}
			}
			own(worker).Store(equal)
		}},
		{"a compare-and-swap", func(keys []string, worker int) {
			w := own(worker)
			for range keys {
				v := w.Load()
				w.CompareAndSwap(v, v+1)
			}
		}},
		{"time.Now", func(keys []string, worker int) {
			var now time.Time
			for range keys {
				now = time.Now()
			}
			own(worker).Store(now.UnixNano())
		}},
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"16 KiB", 16 << 10}, {"512 KiB", 512 << 10}, {"64 MiB", 64 << 20}} {
		lines := cycle(size.bytes / lineBytes)
		ps = append(ps, part{"a read anywhere in " + size.name, func(keys []string, worker int) {
			w := own(worker)
			at := uint64(w.Load()) % uint64(len(lines))
			for range keys {
				at = lines[at][0]
			}
			w.Store(int64(at))
		}})
	}
	return ps
}

const lineBytes = 64

// line is a cache line that contains the index of the next one to read, so that no read begins before the previous one has
// ended.
type line [lineBytes / 8]uint64

// cycle returns n lines in one cycle, in random order (Sattolo's algorithm).
func cycle(n int) []line {
	lines, random := make([]line, n), dice(4)
	for i := range lines {
		lines[i][0] = uint64(i)
	}
	for i := n - 1; i > 0; i-- {
		j := random.IntN(i)
		lines[i][0], lines[j][0] = lines[j][0], lines[i][0]
	}
	return lines
}

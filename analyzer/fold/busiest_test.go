package fold

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
)

// BenchmarkBusiest is what the sample of the busiest callers costs the fold: two folds, one with it, take turns over the same entries, and the median of
// their ratios counts, so that a machine that does other things does not matter.
func BenchmarkBusiest(b *testing.B) {
	const turn = 4096
	entries := foldtest.ZipfEntries(1 << 18)
	last := entries[len(entries)-1].Time - entries[0].Time
	for _, blocked := range []bool{false, true} {
		b.Run(map[bool]string{false: "admitted", true: "a tenth blocked"}[blocked], func(b *testing.B) {
			for i := range entries {
				entries[i].Blocked = blocked && i%10 == 0
			}
			set := foldtest.Rules(b, foldtest.BenchRules()["sliding"])
			folds := [2]*Fold{New(set, Options{MaxRows: 1 << 20}), New(set, Options{MaxRows: 1 << 20, Busiest: true})}
			var ratios []float64
			n, shift := 0, int64(0)
			for b.Loop() {
				var took [2]time.Duration
				for k := range folds {
					f := folds[(k+n)&1]
					begun := time.Now()
					for i := range turn {
						e := entries[(n*turn+i)%len(entries)]
						e.Time += shift
						f.Entry(&e)
					}
					took[(k+n)&1] = time.Since(begun)
				}
				ratios = append(ratios, float64(took[1])/float64(took[0]))
				if n++; n*turn%len(entries) == 0 {
					shift += last
				}
			}
			slices.Sort(ratios)
			b.ReportMetric(100*(ratios[len(ratios)/2]-1), "%-more")
		})
	}
}

// BenchmarkFoldEntryBusiest is one entry with the sample and without, where a tenth is blocked and where nothing is: count instructions with
// valgrind --tool=cachegrind and -test.benchtime=Nx, as wall time says little on a machine that does other things.
func BenchmarkFoldEntryBusiest(b *testing.B) {
	entries := foldtest.ZipfEntries(1 << 18)
	for _, blocked := range []int{0, 10} {
		for _, sampled := range []bool{false, true} {
			b.Run(fmt.Sprintf("blocked=%d%%/sampled=%v", blocked, sampled), func(b *testing.B) {
				f := New(foldtest.Rules(b, foldtest.BenchRules()["sliding"]), Options{MaxRows: 1 << 20, Busiest: sampled})
				n, shift := 0, int64(0)
				for b.Loop() {
					e := entries[n]
					e.Time, e.Blocked = e.Time+shift, blocked > 0 && n%blocked == 0
					f.Entry(&e)
					if n++; n == len(entries) {
						n, shift = 0, shift+entries[n-1].Time-entries[0].Time
					}
				}
			})
		}
	}
}

package histogram

import (
	"math"
	"slices"
	"sync"
	"testing"
)

func TestObserve(t *testing.T) {
	h := New([]float64{0, 1, 10})
	for _, v := range []float64{-1, 0, 0.5, 1, 1.0001, 10, 11, math.Inf(1), math.NaN()} {
		h.Observe(v)
	}
	s := h.Snapshot()
	if s.Count != 8 || s.Within[0] != 2 || s.Within[1] != 4 || s.Within[10] != 6 || !math.IsInf(s.Sum, 1) {
		t.Errorf("got %+v", s)
	}
	if s := New(Seconds()).Snapshot(); s.Count != 0 || s.Sum != 0 || len(s.Within) != len(Seconds()) {
		t.Errorf("empty: got %+v", s)
	}
}

// TestBoundsRise: Observe searches in them.
func TestBoundsRise(t *testing.T) {
	for _, bounds := range [][]float64{Seconds(), Ratios()} {
		if !slices.IsSorted(bounds) || len(slices.Compact(slices.Clone(bounds))) != len(bounds) {
			t.Errorf("got %v", bounds)
		}
	}
}

// TestSnapshotsNeverFall while another goroutine observes: a bound never counts more than the next, and no count falls.
func TestSnapshotsNeverFall(t *testing.T) {
	const measurements = 20_000
	h := New([]float64{0.25, 0.5, 0.75})
	var observing sync.WaitGroup
	observing.Go(func() {
		for i := range measurements {
			h.Observe(float64(i%4) / 4)
		}
	})
	var last Snapshot
	for last.Count < measurements {
		s := h.Snapshot()
		if s.Within[0.25] > s.Within[0.5] || s.Within[0.5] > s.Within[0.75] || s.Within[0.75] > s.Count || s.Count < last.Count {
			t.Fatalf("got %+v after %+v", s, last)
		}
		last = s
	}
	observing.Wait()
	if s := h.Snapshot(); s.Sum != measurements/4*1.5 || s.Within[0.25] != measurements/2 {
		t.Errorf("got %+v", s)
	}
}

package histogram

import (
	"math"
	"slices"
	"sync/atomic"
)

// Seconds returns the bounds for what takes from a millisecond to some minutes.
func Seconds() []float64 {
	return []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
}

// Ratios returns the bounds for shares of a limit, from nothing to ten times the limit.
func Ratios() []float64 { return []float64{0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10} }

// Histogram counts measurements by the smallest bound that they are not above. Make one with New. One goroutine at a time may
// call Observe; any goroutine may call Snapshot.
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64 // by bound; the last one is of what is above all bounds
	sum    atomic.Uint64   // bits of a float64
}

// New returns a histogram that is empty. The bounds rise.
func New(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe adds a measurement. One that is not a number is dropped.
func (h *Histogram) Observe(v float64) {
	if math.IsNaN(v) {
		return
	}
	i, _ := slices.BinarySearch(h.bounds, v)
	h.sum.Store(math.Float64bits(math.Float64frombits(h.sum.Load()) + v))
	h.counts[i].Add(1)
}

// Snapshot is a histogram at one time. The zero value has no measurements.
type Snapshot struct {
	Within map[float64]uint64 // by bound: measurements that are not above it
	Count  uint64             // all measurements
	Sum    float64
}

// Snapshot returns the histogram as it is now.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{Within: make(map[float64]uint64, len(h.bounds)), Sum: math.Float64frombits(h.sum.Load())}
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if i < len(h.bounds) {
			s.Within[h.bounds[i]] = s.Count
		}
	}
	return s
}

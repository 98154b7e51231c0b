// Package integer is arithmetic of int64 that several packages need. It is pure: it does no I/O, and has no clock, no log and no lock.
package integer

import "math"

// Add returns a + b for b of at least 0, or the largest int64.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// FloorDiv returns the largest k with k·step ≤ t, for a step over 0.
func FloorDiv(t, step int64) int64 {
	k := t / step
	if t%step < 0 {
		k--
	}
	return k
}

// Random draws numbers that are a function of its first value: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014). One goroutine may use it.
type Random uint64

// Next returns the next number.
func (r *Random) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

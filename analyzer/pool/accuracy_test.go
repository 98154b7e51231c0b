package pool

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// asker is a caller.
type asker struct{ asked, weight int64 }

// level returns what a caller asks for, for a weight of 1, in Units.
func (a asker) level() float64 { return float64(a.asked) * Unit * Unit / float64(a.weight) }

// tallies returns what some partitions say of the callers.
func tallies(terms *Terms, callers []asker, partitions int) []Tally {
	list := make([]Tally, partitions)
	for i, a := range callers {
		t := &list[i%partitions]
		t.Total += a.asked
		if integer.MulDiv(a.asked, Unit, 1) >= terms.Protect { // as the fold does
			t.Add(terms, a.asked, a.weight)
		}
	}
	return list
}

// shapes is how much caller i of n asks for, in proportion to the others.
func shapes() map[string]func(r *rand.Rand, i, n int) float64 {
	return map[string]func(r *rand.Rand, i, n int) float64{
		"Zipf":       func(_ *rand.Rand, i, _ int) float64 { return 1 / float64(i+1) },
		"steep Zipf": func(_ *rand.Rand, i, _ int) float64 { return math.Pow(float64(i+1), -1.5) },
		"equal":      func(*rand.Rand, int, int) float64 { return 1 },
		"similar":    func(r *rand.Rand, _, _ int) float64 { return 0.9 + 0.2*r.Float64() },
		"bimodal":    func(_ *rand.Rand, i, n int) float64 { return []float64{1, 20}[i*10/n/9] },
		"geometric":  func(_ *rand.Rand, i, n int) float64 { return math.Pow(0.001, float64(i)/float64(n)) },
		"lognormal":  func(r *rand.Rand, _, _ int) float64 { return math.Exp(r.NormFloat64()) },
	}
}

// draw draws callers that ask for 1.02 to 5 times a capacity.
func draw(r *rand.Rand, shape func(r *rand.Rand, i, n int) float64, weights []int64) (*Terms, []asker) {
	capacity := int64(1000 * math.Pow(10, 3*r.Float64()))
	parts, sum := make([]float64, 3+r.IntN(600)), 0.0
	for i := range parts {
		parts[i] = shape(r, i, len(parts))
		sum += parts[i]
	}
	times := 1.02 + 4*r.Float64()*r.Float64()
	callers := make([]asker, len(parts))
	for i := range callers {
		callers[i] = asker{int64(parts[i] / sum * times * float64(capacity)), weights[r.IntN(len(weights))]}
	}
	return &Terms{Capacity: capacity, Protect: capacity}, callers // 0.1 %
}

// exact returns the level at which callers use the capacity, in Units; infinity if they do not ask for more.
func exact(terms *Terms, callers []asker) float64 {
	byLevel := slices.SortedFunc(slices.Values(callers), func(a, b asker) int { return cmp.Compare(a.level(), b.level()) })
	left, weight := float64(terms.Capacity), 0.0
	for _, a := range byLevel {
		weight += float64(a.weight)
	}
	for _, a := range byLevel {
		if level := left / weight * Unit * Unit; level < a.level() {
			return level
		}
		left, weight = left-float64(a.asked), weight-float64(a.weight)
	}
	return math.Inf(1)
}

// used returns the part of the capacity that callers use under a level.
func used(terms *Terms, callers []asker, level float64) (part float64) {
	for _, a := range callers {
		part += min(float64(a.asked), level*float64(a.weight)/Unit/Unit) / float64(terms.Capacity)
	}
	return part
}

// TestLevelsAreNearTheExactOnes compares levels with those that water-filling over all callers gives, without classes. A level is never too
// high. Where the excess is small and all callers are alike, it is too low by more than elsewhere, and less than 2 % of the capacity stay unused.
func TestLevelsAreNearTheExactOnes(t *testing.T) {
	const seed = 23
	r := rand.New(rand.NewPCG(seed, seed))
	var off, part []float64
	longest := 0
	for _, weights := range [][]int64{{Unit}, {Unit, Unit, 4 * Unit, Unit / 2, 100 * Unit}} {
		for _, name := range slices.Sorted(maps.Keys(shapes())) {
			for range 300 {
				terms, callers := draw(r, shapes()[name], weights)
				want := exact(terms, callers)
				if math.IsInf(want, 1) || want < float64(terms.Protect) {
					continue
				}
				all := tallyOf(terms, callers...)
				got := float64(Fill(terms.Capacity, &all))
				longest = max(longest, len(all.AppendTo(nil)))
				for _, partitions := range []int{4, 16} {
					var merged Tally
					for _, p := range tallies(terms, callers, partitions) {
						merged.plus(&p)
					}
					if !reflect.DeepEqual(merged, all) {
						t.Fatalf("%s, %d partitions: got %v, want %v as from one", name, partitions, merged, all)
					}
				}
				if worst := 0.07; got > want+1 || got < want*(1-worst) {
					t.Errorf("%s: got level %.0f, want %.0f", name, got, want)
				}
				off, part = append(off, (want-got)/want), append(part, used(terms, callers, got))
			}
		}
	}
	slices.Sort(off)
	slices.Sort(part)
	n := len(off)
	t.Logf("seed %d, %d demands: levels are too low by %.3f %% at p50, %.2f %% at p99, %.2f %% at worst; %.2f to %.2f %% of the capacity are used; "+
		"tallies have up to %d bytes", seed, n, 100*off[n/2], 100*off[n*99/100], 100*off[n-1], 100*part[0], 100*part[n-1], longest)
	if n < 1500 || off[n/2] > 0.0005 || off[n*99/100] > 0.011 || part[0] < 0.98 || longest > 300 {
		t.Errorf("got worse than the figures above")
	}
}

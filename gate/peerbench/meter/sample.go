package meter

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// Work does some operations, at least one, and returns how many. It is called again and again by each of several
// workers at once, which are numbered from 0.
type Work func(worker int) (ops int)

// Sample is the result of one measurement. The zero value has no operations.
type Sample struct {
	Ops     int
	CPU     time.Duration // processor time of the whole process, all its threads together
	Wall    time.Duration
	Mallocs int // allocations of the whole process
}

// NS returns the processor time of one operation in nanoseconds; 0 if none was done.
func (s Sample) NS() float64 {
	if s.Ops == 0 {
		return 0
	}
	return float64(s.CPU) / float64(s.Ops)
}

// Allocs returns the allocations of one operation; 0 if none was done.
func (s Sample) Allocs() float64 {
	if s.Ops == 0 {
		return 0
	}
	return float64(s.Mallocs) / float64(s.Ops)
}

// glance is how often a worker looks at the clock. If it looked more often, the looking would be measured too.
const glance = time.Millisecond

// Take runs work on the given number of processors, one worker on each, for about d. It sets GOMAXPROCS for this time, so
// only one Take may run at a time.
func Take(cpus int, d time.Duration, work Work) Sample {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cpus))
	var before, after runtime.MemStats
	ops := make([]int, cpus)
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), ProcessorTime()
	var workers sync.WaitGroup
	for w := 1; w < cpus; w++ {
		workers.Go(func() { ops[w] = runFor(d, w, work) })
	}
	ops[0] = runFor(d, 0, work)
	workers.Wait()
	s := Sample{CPU: ProcessorTime() - cpu, Wall: time.Since(start)}
	runtime.ReadMemStats(&after)
	s.Mallocs = int(after.Mallocs - before.Mallocs)
	for _, n := range ops {
		s.Ops += n
	}
	return s
}

// runFor calls work for about d and returns the operations.
func runFor(d time.Duration, worker int, work Work) (ops int) {
	start := time.Now()
	for calls, last := 1, time.Duration(0); ; {
		for range calls {
			ops += work(worker)
		}
		passed := time.Since(start)
		if passed >= d {
			return ops
		}
		if passed-last < glance {
			calls *= 2
		}
		last = passed
	}
}

// Series is the samples of one trial. The zero value has none.
type Series []Sample

// NS returns the median of the processor time of one operation, in nanoseconds.
func (s Series) NS() float64 { return s.median(Sample.NS) }

// Allocs returns the median of the allocations of one operation, rounded down to thousandths: the occasional allocations of
// the runtime are not those of the operation.
func (s Series) Allocs() float64 { return float64(int(s.median(Sample.Allocs)*1000)) / 1000 }

func (s Series) median(of func(Sample) float64) float64 {
	values := make([]float64, len(s))
	for i := range s {
		values[i] = of(s[i])
	}
	return Median(values)
}

// Over returns the processor time of an operation of s divided by that of base: the median over rounds, each compared with
// the same round of base. A slow change, such as a machine that gets busy, changes both.
func (s Series) Over(base Series) float64 {
	times := make([]float64, 0, len(s))
	for i, b := range base {
		if ns := b.NS(); ns > 0 && i < len(s) {
			times = append(times, s[i].NS()/ns)
		}
	}
	return Median(times)
}

// Median sorts values and returns their median, or 0 without values.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// MiddleMean sorts values and returns the mean of their middle half, or 0 without values.
func MiddleMean(values []float64) float64 {
	slices.Sort(values)
	middle := values[len(values)/4 : len(values)-len(values)/4]
	if len(middle) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range middle {
		sum += v
	}
	return sum / float64(len(middle))
}

package meter

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// spin keeps a processor busy for some microseconds, by its own reckoning.
func spin(int) int {
	for start := time.Now(); time.Since(start) < 20*time.Microsecond; {
		runtime.KeepAlive(start)
	}
	return 1
}

func TestTakeCountsProcessorTimeOfAllWorkers(t *testing.T) {
	for _, cpus := range []int{1, 2} {
		s := Take(cpus, 50*time.Millisecond, spin)
		if s.Wall < 50*time.Millisecond {
			t.Errorf("%d CPUs: got %v of wall time, want 50ms at least", cpus, s.Wall)
		}
		// A busy machine may give us less than we ask for, never more.
		if limit := time.Duration(cpus) * (s.Wall + 20*time.Millisecond); s.CPU <= 0 || s.CPU > limit {
			t.Errorf("%d CPUs: got %v of processor time in %v, want up to %v", cpus, s.CPU, s.Wall, limit)
		}
		if s.Ops < 1 || s.Ops > int(s.CPU/time.Microsecond) {
			t.Errorf("%d CPUs: got %d ops of 20 µs in %v of processor time", cpus, s.Ops, s.CPU)
		}
	}
}

func TestTakeGivesEachWorkerItsNumber(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var calls, procs [2]atomic.Int64
	s := Take(2, 5*time.Millisecond, func(worker int) int {
		calls[worker].Add(1)
		procs[worker].Store(int64(runtime.GOMAXPROCS(0)))
		return 3
	})
	if want := 3 * int(calls[0].Load()+calls[1].Load()); s.Ops != want {
		t.Errorf("got %d ops, want %d", s.Ops, want)
	}
	for w := range calls {
		if calls[w].Load() == 0 || procs[w].Load() != 2 {
			t.Errorf("worker %d: got %d calls on %d processors, want some on 2", w, calls[w].Load(), procs[w].Load())
		}
	}
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("got %d processors afterwards, want %d as before", got, before)
	}
}

// sink keeps allocations from being optimized away.
var sink atomic.Pointer[[64]byte]

func TestTakeCountsAllocations(t *testing.T) {
	allocating := Take(1, 5*time.Millisecond, func(int) int {
		sink.Store(new([64]byte))
		sink.Store(new([64]byte))
		return 1
	})
	if got := allocating.Allocs(); got < 2 || got > 2.1 {
		t.Errorf("got %v allocations an operation, want 2", got)
	}
	if got := (Series{Take(1, 5*time.Millisecond, spin)}).Allocs(); got > 0.1 {
		t.Errorf("got %v allocations of an operation that has none", got)
	}
}

func TestTakeLooksAtTheClockSeldom(t *testing.T) {
	var n int
	Take(1, 20*time.Millisecond, func(int) int { n++; return 1 })
	if n < 100_000 {
		t.Errorf("got %d calls of nothing in 20 ms, want far more: the clock is what was measured", n)
	}
}

func TestSeriesIsItsMedian(t *testing.T) {
	s := Series{
		{Ops: 10, CPU: 100, Mallocs: 10},
		{Ops: 10, CPU: 100_000, Mallocs: 0}, // the machine was busy
		{Ops: 10, CPU: 110, Mallocs: 10},
	}
	if got := s.NS(); got != 11 {
		t.Errorf("got %v ns, want 11", got)
	}
	if got := s.Allocs(); got != 1 {
		t.Errorf("got %v allocations, want 1", got)
	}
	if got := (Series{{Ops: 1_000_000, CPU: 1, Mallocs: 999}}).Allocs(); got != 0 {
		t.Errorf("got %v allocations, want 0: the runtime's own are cut off", got)
	}
}

func TestOverComparesRoundByRound(t *testing.T) {
	// A machine that gets busier by the round: medians of the two would say 1.
	base := Series{{Ops: 1, CPU: 100}, {Ops: 1, CPU: 200}, {Ops: 1, CPU: 400}}
	s := Series{{Ops: 1, CPU: 110}, {Ops: 1, CPU: 220}, {Ops: 1, CPU: 440}}
	if got := s.Over(base); math.Abs(got-1.1) > 1e-9 {
		t.Errorf("got %v times, want 1.1", got)
	}
	if got := s.Over(Series{{}, {Ops: 1, CPU: 220}}); got != 1 {
		t.Errorf("got %v times, want 1: a round of nothing, and one that is missing, are left out", got)
	}
	if got := s.Over(nil); got != 0 {
		t.Errorf("got %v times nothing, want 0", got)
	}
}

package gate

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

func TestACellIsTwoCacheLines(t *testing.T) {
	if n := unsafe.Sizeof(cell{}); n != cellSize {
		t.Errorf("got cells of %d bytes, want %d", n, cellSize)
	}
}

// TestPermitsOfAllGates: whatever the demand of each gate, their permits of one period add up to at most K and one for each
// gate, and over many periods to K on average.
func TestPermitsOfAllGates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		permits := rapid.OneOf(rapid.Int64Range(0, 5000), rapid.Int64Range(0, math.MaxInt32)).Draw(t, "permits")
		own := rapid.SliceOfN(rapid.Int64Range(1, 1_000_000), 1, 20).Draw(t, "own")
		demand := int64(0)
		for _, n := range own {
			demand += n
		}
		const periods = 1000
		first, total := uint64(rapid.Uint32().Draw(t, "first")), uint64(0)
		for n := range uint64(periods) {
			sum := uint64(0)
			for _, o := range own {
				sum += uint64(quotaOf(permits, o, demand).in(first + n))
			}
			if most := uint64(permits) + uint64(len(own)); sum > most {
				t.Fatalf("period %d: got %d permits, want at most %d", n, sum, most)
			}
			total += sum
		}
		// A fraction that is spread evenly is wrong by at most a few permits over any number of periods.
		if got, want := float64(total), float64(permits)*periods; math.Abs(got-want) > 4*float64(len(own)) {
			t.Fatalf("got %v permits over %d periods, want %v", got, periods, want)
		}
	})
}

func TestQuotasAtTheLimits(t *testing.T) {
	for _, p := range []struct {
		permits, own, demand int64
		want                 quota
	}{
		{1000, 500, 1000, quota{500, 0}},
		{1000, 1, 3, quota{333, 1431655765}},
		{1000, 0, 1000, quota{1, 0}},     // no demand: one, so that the gate can begin
		{0, 0, 1000, quota{0, 0}},        // there are none
		{1000, 1001, 10, quota{1000, 0}}, // more than the log has: entries were lost
		{1, 1, math.MaxInt64, quota{0, 0}},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, quota{math.MaxUint32, 0}},
		{math.MaxInt64, 1, 1, quota{math.MaxUint32, 0}},
		{1 << 32, 1, 1, quota{math.MaxUint32, 0}},
		{5 << 32, 1, 1, quota{math.MaxUint32, 0}},
		{1<<33 - 1, 1, 1, quota{math.MaxUint32, 0}},
		{1<<32 - 1, 1, 1, quota{math.MaxUint32, 0}},
		{1, 3 << 40, 4 << 40, quota{0, 3 << 30}},
	} {
		if got := quotaOf(p.permits, p.own, p.demand); got != p.want {
			t.Errorf("%d × %d ÷ %d: got %v, want %v", p.permits, p.own, p.demand, got, p.want)
		}
		quotaOf(p.permits, p.own, p.demand).in(math.MaxUint64)
	}
	if (quota{math.MaxUint32, math.MaxUint32}).in(math.MaxUint64) == 0 {
		t.Error("got no permit of the largest quota: it wrapped around")
	}
}

// TestQuotientsAreExact: the quotient by an inverse is that of a division, for every length, most of all where the next number
// begins.
func TestQuotientsAreExact(t *testing.T) {
	for length := range int64(1000) {
		for _, unit := range []int64{1, int64(time.Millisecond)} {
			length := (length + 1) * unit
			for _, n := range []int64{0, 1, length - 1, length, 7*length - 1, 7 * length, math.MaxInt64/length*length - 1, math.MaxInt64 / length * length} {
				if got := quotient(n, length, inverse(length)); got != uint64(n/length) {
					t.Fatalf("got %d / %d = %d, want %d", n, length, got, n/length)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.OneOf(rapid.Int64Range(1, math.MaxInt64), rapid.Int64Range(1, 1000), rapid.Custom(func(t *rapid.T) int64 {
			return max(1, 1<<rapid.IntRange(0, 62).Draw(t, "power")+rapid.Int64Range(-1, 1).Draw(t, "beside"))
		})).Draw(t, "length")
		number := rapid.Int64Range(0, math.MaxInt64/length).Draw(t, "number")
		for _, n := range []int64{0, number*length - 1, number * length, number*length + 1, number*length + length - 1, math.MaxInt64} {
			if n < 0 { // it overflowed, or there is none before 0
				continue
			}
			if got := quotient(n, length, inverse(length)); got != uint64(n/length) {
				t.Fatalf("got %d / %d = %d, want %d", n, length, got, n/length)
			}
		}
	})
}

func TestPermitsAreSpentOncePerPeriod(t *testing.T) {
	type step struct {
		tag  uint32
		ok   bool
		back bool // the permit is given back at once
	}
	const second = int64(time.Second)
	for name, steps := range map[string][]step{
		"two a period":                           {{tag: 5000, ok: true}, {tag: 5000, ok: true}, {tag: 5000}, {tag: 6000, ok: true}, {tag: 6000, ok: true}, {tag: 6000}},
		"a permit given back can be spent":       {{tag: 5000, ok: true, back: true}, {tag: 5000, ok: true}, {tag: 5000, ok: true}, {tag: 5000}},
		"who comes late begins no period anew":   {{tag: 5000, ok: true}, {tag: 5000, ok: true}, {tag: 6000, ok: true}, {tag: 5000, ok: true}, {tag: 5000}, {tag: 6000}},
		"a clock that steps back a day is right": {{tag: 90_000_000, ok: true}, {tag: 90_000_000, ok: true}, {tag: 5000, ok: true}, {tag: 5000, ok: true}, {tag: 5000}},
		"the name of a period wraps around":      {{tag: math.MaxUint32 - 500, ok: true}, {tag: math.MaxUint32 - 500, ok: true}, {tag: 499, ok: true}, {tag: math.MaxUint32 - 500, ok: true}, {tag: 499}},
		"a first period with the largest name":   {{tag: math.MaxUint32, ok: true}, {tag: math.MaxUint32, ok: true}, {tag: math.MaxUint32}},
	} {
		t.Run(name, func(t *testing.T) {
			var c cell
			for i, p := range steps {
				if got := c.spend(p.tag, second, 2); got != p.ok {
					t.Fatalf("step %d: got %v, want %v", i, got, p.ok)
				}
				if p.back {
					c.giveBack()
				}
			}
		})
	}
	var c cell
	if c.giveBack(); c.spent.Load() != 0 || c.spend(1, second, 0) {
		t.Error("got a permit of none")
	}
}

// TestGoroutinesShareAPeriod: however many spend, give back and count at once, the sums are right.
func TestGoroutinesShareAPeriod(t *testing.T) {
	var c cell
	c.reset(int64(time.Hour), 0)
	var spent atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 5000 {
				c.count(int64(time.Minute))
				if c.spend(7, int64(time.Second), 6000) {
					spent.Add(1)
					if i%5 == 0 {
						c.giveBack()
						spent.Add(-1)
					}
				}
			}
		})
	}
	wg.Wait()
	for c.spend(7, int64(time.Second), 6000) {
		spent.Add(1)
	}
	if demand, ok := c.measured(0, int64(time.Hour), int64(time.Hour)); spent.Load() != 6000 || demand != 20_000 || !ok {
		t.Errorf("got %d permits, demand %d, want 6000 and 20000", spent.Load(), demand)
	}
}

func TestDemandOfATime(t *testing.T) {
	const ms = int64(time.Millisecond)
	length := subPeriod(40 * ms)
	begin := noon.UnixNano()
	var c cell
	c.reset(length, begin)
	for i := range int64(200) { // one a millisecond
		c.count(begin + i*ms)
	}
	now := begin + 199*ms
	for _, p := range []struct {
		from, until int64 // milliseconds
		want        int64
		ok          bool
	}{
		{150, 190, 40, true},
		{130, 170, 40, true},
		{120, 160, 40, true},
		{119, 159, 30, true}, // the part of a sub-period is left out: rather too few permits
		{110, 150, 0, false}, // forgotten
		{-10, 30, 0, false},
		{160, 200, 0, false}, // not over
		{190, 190, 0, true},
	} {
		if got, ok := c.measured(begin+p.from*ms, begin+p.until*ms, now); got != p.want || ok != p.ok {
			t.Errorf("%d to %d ms: got %d, %v, want %d, %v", p.from, p.until, got, ok, p.want, p.ok)
		}
	}
	c.count(begin + 155*ms)
	if got, ok := c.measured(begin+120*ms+1, begin+160*ms, now); got != 31 || !ok {
		t.Errorf("from a nanosecond after 120 ms, with one request more: got %d, %v, want 31", got, ok)
	}
	if got, ok := c.measured(now+20*length, now+24*length, now+26*length); got != 0 || !ok {
		t.Errorf("got %d, %v, want 0 of a time without a request", got, ok)
	}
	c.reset(length, now)
	if _, ok := c.measured(now-4*length, now, now+length); ok {
		t.Error("got a demand from before the cell was made, want none")
	}
}

func TestSubPeriodsAreWholeTicks(t *testing.T) {
	for measured, want := range map[int64]int64{
		1: subPeriodTicks, 4 * subPeriodTicks: subPeriodTicks, 4*subPeriodTicks + 1: 2 * subPeriodTicks,
		int64(time.Second): int64(250 * time.Millisecond), int64(schemas.MaxClosure): int64(schemas.MaxClosure) / 4,
	} {
		if got := subPeriod(measured); got != want {
			t.Errorf("%d ns: got sub-periods of %d ns, want %d", measured, got, want)
		}
	}
}

// TestCellsAreReusedAfterAWhile: a request that is on its way may still count in a cell that has just been freed.
func TestCellsAreReusedAfterAWhile(t *testing.T) {
	var cs cells
	for i := range uint32(maxShares) {
		if got, ok := cs.alloc(1, 0); got != i || !ok {
			t.Fatalf("got cell %d, %v, want %d", got, ok, i)
		}
		if want := int(i/cellsPerChunk+1) * cellsPerChunk * cellSize; cs.bytes() != want {
			t.Fatalf("got %d bytes for %d cells, want %d", cs.bytes(), i+1, want)
		}
	}
	for i := range uint32(maxShares) {
		if !cs.at(i).spend(9, 1, 1) {
			t.Fatalf("got no permit of cell %d: another cell has spent it", i)
		}
	}
	if _, ok := cs.alloc(1, 0); ok || cs.inUse() != maxShares || cs.bytes() != maxShares*cellSize {
		t.Errorf("got a cell too many: %d in use, %d bytes", cs.inUse(), cs.bytes())
	}
	cs.free(77, 100)
	for _, now := range []int64{100, 100 + reuseAfter - 1} {
		if _, ok := cs.alloc(1, now); ok {
			t.Errorf("got a cell again %d ns after it was freed", now-100)
		}
	}
	if i, ok := cs.alloc(1, 100+reuseAfter); i != 77 || !ok || cs.at(77).spent.Load() != 0 || cs.inUse() != maxShares {
		t.Errorf("got cell %d, %v, want 77, as new", i, ok)
	}
}

package policy

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// TestMeterAgainstAList: a Meter says of its newest eight slots what a list of all weights says, in whatever order they come.
func TestMeterAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const slot = 250 * ms
		var m Meter
		type entry struct{ t, weight int64 }
		var list []entry
		base := rapid.Int64Range(8, 1<<40).Draw(t, "base") * slot
		newest := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			e := entry{base + rapid.Int64Range(0, 20*slot).Draw(t, "at"), rapid.Int64Range(0, 1<<33).Draw(t, "weight")}
			kept := min(e.weight, 1<<32-1)
			if m.add(slot, e.t, kept); integer.FloorDiv(e.t, slot) > newest-meterSlots {
				list = append(list, entry{e.t, kept})
			}
			newest = max(newest, integer.FloorDiv(e.t, slot))
		}
		from := (newest - rapid.Int64Range(0, 9).Draw(t, "from")) * slot
		until := from + rapid.Int64Range(0, 5).Draw(t, "slots")*slot
		got, ok := m.sum(slot, from, until)
		if ok != (from/slot > newest-meterSlots) {
			t.Fatalf("got %v of %d slots ago", ok, newest-from/slot)
		}
		if !ok {
			return
		}
		want := make(map[int64]int64)
		for _, e := range list {
			if e.t >= from && e.t < until {
				n := integer.FloorDiv(e.t, slot)
				want[n] = min(want[n]+e.weight, 1<<32-1)
			}
		}
		sum := int64(0)
		for _, w := range want {
			sum += w
		}
		if got != sum {
			t.Fatalf("got %d, want %d", got, sum)
		}
	})
}

// TestMeterRate: the mean of two whole slots and a part of one.
func TestMeterRate(t *testing.T) {
	var m Meter
	for i := range int64(100) {
		m.add(250*ms, 10_000*ms+i*10*ms, 20)
	}
	for at, want := range map[int64]int64{10_990: 2_000_000, 11_250: 1_000_000, 12_000: 0} {
		if got := m.rate(250*ms, 2, at*ms); got < want-30_000 || got > want+30_000 {
			t.Errorf("got %d thousandths a second at %d ms, want about %d", got, at, want)
		}
	}
}

// TestUsed: admitted weight is kept of the newest time and of the one before it.
func TestUsed(t *testing.T) {
	var u admittedByInterval
	for _, step := range []struct {
		at, weight  int64
		newInterval bool
		before, now uint32
	}{
		{10_000, 3, true, 0, 3},
		{10_999, 4, false, 0, 7},
		{11_000, 5, true, 7, 5},
		{10_999, 6, false, 13, 5},
		{9_999, 7, false, 13, 5},
		{13_000, 1, true, 0, 1},
		{13_500, 1 << 40, false, 0, 1<<32 - 1},
	} {
		newInterval := u.add(1000*ms, step.at*ms, step.weight)
		if newInterval != step.newInterval || u.before != step.before || u.now != step.now {
			t.Errorf("%d at %d: got %v, %d and %d, want %v, %d and %d", step.weight, step.at, newInterval, u.before, u.now, step.newInterval, step.before, step.now)
		}
	}
}

package window

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// TestKindsMakeWhatTheyName: each kind's windows say its name in their shape, tuning reaches the windows of the kinds that use
// it and no others, and the default comes first.
func TestKindsMakeWhatTheyName(t *testing.T) {
	if first := Kinds()[0].Name; first != Default {
		t.Errorf("got %s first, want %s", first, Default)
	}
	for _, k := range Kinds() {
		a := k.New(time.Minute, 20, 7)
		if !strings.HasPrefix(a.Shape(), k.Name+"/") {
			t.Errorf("%s: got shape %s", k.Name, a.Shape())
		}
		if got, ok := KindOf(k.Name); !ok || got.Name != k.Name {
			t.Errorf("got %q, %v, want %s", got.Name, ok, k.Name)
		}
		if used := k.New(time.Minute, 10, 7).Shape() != a.Shape(); used != k.Slots {
			t.Errorf("%s: got slots used %v, want %v", k.Name, used, k.Slots)
		}
		if used := a.Capacity(100) == 7; used != k.Burst {
			t.Errorf("%s: got burst used %v, want %v", k.Name, used, k.Burst)
		}
	}
	for _, name := range []string{"", "Fixed", "bucket"} {
		if k, ok := KindOf(name); ok {
			t.Errorf("%q: got %s, want none", name, k.Name)
		}
	}
	if k, ok := KindOf(OnACalendar); !ok || k.Name != NewCalendar(Month, time.UTC, 1).Shape()[:len(k.Name)] {
		t.Errorf("got %q for windows of the calendar", k.Name)
	}
}

// TestAWindowIsFullAtItsCapacity, and not before, whatever the algorithm.
func TestAWindowIsFullAtItsCapacity(t *testing.T) {
	algorithms := []Algorithm{NewCalendar(Day, time.UTC, 1), NewGCRA(time.Minute, 3)}
	for _, k := range Kinds() {
		algorithms = append(algorithms, k.New(time.Minute, 20, 0))
	}
	for _, a := range algorithms {
		for _, limit := range []int64{1, 2, 50} {
			capacity := a.Capacity(limit)
			s, count := a.Add(nil, limit, 1, capacity)
			if !count.Full(1) {
				t.Errorf("%s, limit %d: open with %d", a.Shape(), limit, capacity)
			}
			if capacity > 1 {
				if s, count = a.Add(nil, limit, 1, capacity-1); count.Full(1) {
					t.Errorf("%s, limit %d: full with %d", a.Shape(), limit, capacity-1)
				}
			}
			_ = s
		}
	}
}

// TestWeightLeavesAtSlots: from one multiple of Traits.Slot to the next a window's total stays as it is.
func TestWeightLeavesAtSlots(t *testing.T) {
	for _, k := range Kinds() {
		a := k.New(time.Minute, 20, 0)
		slot := a.Traits().Slot
		if slot == 0 || slot == math.MaxInt64 {
			continue
		}
		var s State
		for at := range int64(60) {
			s, _ = a.Add(s, 100, at*int64(time.Second), 1)
		}
		falls := 0
		for at := int64(59); at < 130; at++ {
			begin := integer.FloorDiv(at*int64(time.Second), slot) * slot
			first, last := a.View(s, 100, begin).Total, a.View(s, 100, begin+slot-1).Total
			if got := a.View(s, 100, at*int64(time.Second)).Total; got != first || got != last {
				t.Errorf("%s: got %d at %d s, want %d and %d as at the ends of its slot", k.Name, got, at, first, last)
			}
			if a.View(s, 100, begin+slot).Total < first {
				falls++
			}
		}
		if falls == 0 {
			t.Errorf("%s: got no weight that leaves at slots of %v", k.Name, time.Duration(slot))
		}
	}
}

// TestTraitsAreTrue: each trait is what a window does.
func TestTraitsAreTrue(t *testing.T) {
	const limit = 10
	for _, k := range Kinds() {
		a := k.New(time.Minute, 20, 0)
		_, over := a.Add(nil, limit, 1, 3*limit)
		s, _ := a.Add(nil, limit, 1, limit)
		s, _ = a.Add(s, limit, 2, limit)
		s, kept := a.Add(s, limit, 3, limit)
		if truncates := kept.Total < over.Total; truncates != a.Traits().Truncates {
			t.Errorf("%s: got %d of %d kept, want truncates %v", k.Name, kept.Total, over.Total, a.Traits().Truncates)
		}
		later := a.View(s, limit, int64(time.Minute)+3)
		if endless := later.Total > 0 && later.Start >= 3; endless != a.Traits().Endless {
			t.Errorf("%s: got %+v a window later, want endless %v", k.Name, later, a.Traits().Endless)
		}
		at := rand.Int64N(int64(100 * time.Hour))
		_, count := a.Add(nil, limit, at, 1)
		if aligned := count.Start%int64(time.Minute) == 0; aligned != a.Traits().Aligned && !strings.HasPrefix(a.Shape(), nameSliding) {
			t.Errorf("%s: got a start of %d, want aligned %v", k.Name, count.Start, a.Traits().Aligned)
		}
	}
}

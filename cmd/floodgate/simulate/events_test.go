package simulate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEventsHappenInOrder: by time, and of equal times in the order in which they were planned, also those that an event plans.
func TestEventsHappenInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type happening struct{ at, planned int64 }
		line := newTimeline()
		var got []happening
		n := int64(0)
		var plan func(at int64, depth int)
		plan = func(at int64, depth int) {
			n++
			this := happening{max(at, line.now), n}
			line.at(at, func() {
				if line.now != this.at {
					t.Fatalf("got time %d at an event of %d", line.now, this.at)
				}
				got = append(got, this)
				if depth > 0 {
					plan(line.now+rapid.Int64Range(-2, 3).Draw(t, "after"), depth-1)
				}
			})
		}
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			plan(rapid.Int64Range(0, 10).Draw(t, "at"), rapid.IntRange(0, 2).Draw(t, "depth"))
		}
		until := rapid.Int64Range(0, 12).Draw(t, "until")
		line.advance(until)
		for _, h := range got {
			if h.at > until {
				t.Fatalf("got an event of %d before %d", h.at, until)
			}
		}
		if line.now != until {
			t.Fatalf("got time %d, want %d", line.now, until)
		}
		line.advance(1000)
		if !slices.IsSortedFunc(got, func(a, b happening) int { return int(a.at - b.at) }) || int64(len(got)) != n {
			t.Fatalf("got %v, want %d events in order of time", got, n)
		}
		for i := 1; i < len(got); i++ {
			if got[i].at == got[i-1].at && got[i].planned < got[i-1].planned {
				t.Fatalf("got %v: of equal times the later planned one came first", got)
			}
		}
	})
}

// TestTimeNeverGoesBack: an event that is planned for the past happens now.
func TestTimeNeverGoesBack(t *testing.T) {
	line := newTimeline()
	line.now = 100
	happened := int64(0)
	line.at(5, func() { happened = line.now })
	line.advance(50)
	if happened != 0 || line.now != 100 {
		t.Errorf("got an event at %d and time %d, want none before 100", happened, line.now)
	}
	line.advance(100)
	if happened != 100 {
		t.Errorf("got the event at %d, want it at 100", happened)
	}
}

package predict

import (
	"reflect"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

func TestATrackerIsSmall(t *testing.T) {
	if got := reflect.TypeFor[tracker]().Size(); got > 128 {
		t.Errorf("got %d bytes, want at most 128", got)
	}
}

// TestARowWithAShareTakes320Bytes: the tracker with its places, and the share.
func TestARowWithAShareTakes320Bytes(t *testing.T) {
	if size := unsafe.Sizeof(tracker{}) + 24 + unsafe.Sizeof(policy.Sharing{}); size > 320 {
		t.Errorf("got %d bytes, want at most 320", size)
	}
}

// TestAMovedCloseKeepsTheNextOne: the closure moves, and the next one, which was announced for later, stays; one that the closure has
// reached does not.
func TestAMovedCloseKeepsTheNextOne(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1s, slots: 4}").Rules[0]
	for after, keeps := range map[int64]bool{second: true, 0: false} {
		p := New(Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}, func(uint32) Row { return Row{Rule: rule, ID: "a", Limit: 10} })
		p.Measure(0, 100*millisecond, 0)
		if !p.Admitted(&Sent{Row: 3, Rule: rule, Limit: 10, Weight: 10, Total: 10, Near: true}) {
			t.Fatal("a row at its limit is not tracked")
		}
		announced := schemas.Span{CloseAt: second + after, Until: second + after + 500*millisecond, Early: true}
		tr := p.trackers.find(3)
		tr.announced = policy.Announced{CloseAt: announced.CloseAt, Until: announced.Until}
		before := policy.Closure{CloseAt: 0, Until: second, Nth: 1, Peak: 10}
		moved := before
		moved.Until += 250 * millisecond
		f := p.Changed(&Change{
			Row: 3, Rule: rule, ID: "a", Kind: policy.Moved, Before: before, Closure: moved, Limit: 10, At: 300 * millisecond, Now: 300 * millisecond, Total: 20,
		})
		if !keeps {
			announced = schemas.Span{}
		}
		if f.Next != announced || tr.announced.Holds(300*millisecond) != keeps {
			t.Errorf("got next %+v and announced %+v, want %+v", f.Next, tr.announced, announced)
		}
	}
}

// TestACloseIsPredictedIfGatesHoldItInTime: an early close that began at most a lag after the close by count. It confirms that one close.
func TestACloseIsPredictedIfGatesHoldItInTime(t *testing.T) {
	rule := foldtest.Rules(t, "{name: r, callers: key, limit: 10, window: 1s, algorithm: fixed}").Rules[0]
	const lag, at = 100 * millisecond, 300 * millisecond
	for late, want := range map[int64]policy.Mechanism{-lag: policy.Predicted, lag: policy.Predicted, lag + 1: policy.Reactive} {
		p := predictorOf(rule, Options{MaxPredict: rules.PredictEarly, LagCap: DefaultLagCap}, time.Duration(lag))
		p.Admitted(&Sent{Rule: rule, Limit: 10, Weight: 10, Total: 10, Near: true})
		p.trackers.find(0).announced = policy.Announced{CloseAt: at + late, Until: second}
		c := Change{Rule: rule, ID: "a", Kind: policy.Closed, Closure: policy.Closure{CloseAt: at, Until: second, Nth: 1}, Limit: 10, At: at, Now: at, Total: 10}
		if got := p.Changed(&c).By; got != want {
			t.Errorf("announced %d ns after the close: got %v, want %v", late, got, want)
		}
		c.At, c.Now, c.Closure = c.At+second, c.Now+second, policy.Closure{CloseAt: at + second, Until: 2 * second, Nth: 1}
		if got := p.Changed(&c).By; got != policy.Reactive {
			t.Errorf("the next close: got %v, want %v, since nothing was announced", got, policy.Reactive)
		}
	}
}

// TestTrackersAreAMap: rows get trackers and lose them in any order, and each is found under its number. The table knows how many of them
// have a share.
func TestTrackersAreAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all trackers
		held, shares := make(map[uint32]bool), 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			row := rapid.Uint32Range(0, 60).Draw(t, "row")
			if held[row] {
				all.remove(row)
				delete(held, row)
				shares -= int(row % 2)
			} else {
				tr := all.add(row)
				tr.lastNear = int64(row)
				held[row] = true
				if row%2 == 1 {
					all.putShare(tr, new(policy.Sharing))
					shares++
				}
			}
			for row := range uint32(61) {
				if tr := all.find(row); (tr != nil) != held[row] || tr != nil && (tr.row != row || tr.lastNear != int64(row) || !tr.used) {
					t.Fatalf("row %d: got %+v, want a tracker: %v", row, tr, held[row])
				}
			}
			if all.used != len(held) || all.shares != shares {
				t.Fatalf("got %d in use and %d with a share, want %d and %d", all.used, all.shares, len(held), shares)
			}
		}
	})
}

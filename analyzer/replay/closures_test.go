package replay

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

func TestClosuresHoldUntilTheyEnd(t *testing.T) {
	var c closures
	a := schemas.Caller{Kind: "ip", ID: "a"}
	if c.closed(a, 0) {
		t.Error("closed by nothing")
	}
	c.close(a, 10, 20)
	c.close(a, 15, 15) // empty
	c.close(a, 16, 12) // over before it came
	for _, step := range []struct {
		at   int64
		want bool
	}{{16, true}, {19, true}, {20, false}, {25, false}} {
		if got := c.closed(a, step.at); got != step.want {
			t.Errorf("at %d: got %v", step.at, got)
		}
	}
	if len(c.until) != 0 {
		t.Errorf("keeps what is over: %v", c.until)
	}
}

// TestClosuresAgreeWithAListOfSpans: a caller is closed if any of its closures is in force.
func TestClosuresAgreeWithAListOfSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c closures
		naive := map[schemas.Caller][][2]int64{}
		for now := int64(0); now < 200; now += rapid.Int64Range(0, 5).Draw(t, "step") + 1 {
			caller := schemas.Caller{Kind: "ip", ID: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "who"))}
			want := false
			for _, s := range naive[caller] {
				want = want || s[0] <= now && now < s[1]
			}
			if got := c.closed(caller, now); got != want {
				t.Fatalf("%s at %d: got %v, want %v of %v", caller, now, got, want, naive[caller])
			}
			if rapid.Bool().Draw(t, "close") {
				s := [2]int64{now, now + rapid.Int64Range(0, 60).Draw(t, "length")}
				c.close(caller, s[0], s[1])
				naive[caller] = append(naive[caller], s)
			}
		}
	})
}

func TestClosuresDropWhatHasEnded(t *testing.T) {
	// A million callers, each closed for a moment and never seen again.
	var c closures
	for i := range int64(1_000_000) {
		c.close(schemas.Caller{Kind: "ip", ID: fmt.Sprint(i)}, i, i+100)
	}
	if n := len(c.until); n > 10_000 {
		t.Errorf("keeps %d closures of which 100 are in force", n)
	}
}

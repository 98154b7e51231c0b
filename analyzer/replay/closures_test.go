package replay

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

func TestClosuresHoldFromUntil(t *testing.T) {
	var c closures
	a := schemas.Caller{Kind: "ip", ID: "a"}
	if c.closed(a, 0) {
		t.Error("closed by nothing")
	}
	c.close(a, span{10, 20})
	c.close(a, span{20, 20}) // empty
	c.close(a, span{30, 25}) // over before it came into force
	for _, step := range []struct {
		at   int64
		want bool
	}{{9, false}, {10, true}, {19, true}, {20, false}, {25, false}} {
		if got := c.closed(a, step.at); got != step.want {
			t.Errorf("at %d: got %v", step.at, got)
		}
	}
	if len(c.spans) != 0 {
		t.Errorf("keeps what is over: %v", c.spans)
	}
}

// TestClosuresAgreeWithAListOfSpans puts in closures the way a lag of some length does.
func TestClosuresAgreeWithAListOfSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c closures
		naive := map[schemas.Caller][]span{}
		lag := rapid.Int64Range(0, 30).Draw(t, "lag")
		for now := int64(0); now < 200; now += rapid.Int64Range(0, 5).Draw(t, "step") + 1 {
			who := schemas.Caller{Kind: "ip", ID: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "who"))}
			want := false
			for _, s := range naive[who] {
				want = want || s.from <= now && now < s.until
			}
			if got := c.closed(who, now); got != want {
				t.Fatalf("%s at %d: got %v, want %v of %v", who, now, got, want, naive[who])
			}
			if rapid.Bool().Draw(t, "close") {
				s := span{now + lag, now + rapid.Int64Range(0, 60).Draw(t, "length")}
				c.close(who, s)
				naive[who] = append(naive[who], s)
			}
		}
	})
}

func TestClosuresForgetWhatIsOver(t *testing.T) {
	// A million callers, each closed for a moment and never seen again.
	var c closures
	for i := range int64(1_000_000) {
		c.close(schemas.Caller{Kind: "ip", ID: fmt.Sprint(i)}, span{i, i + 100})
	}
	if n := len(c.spans); n > 10_000 {
		t.Errorf("keeps %d closures of which 100 are in force", n)
	}
}

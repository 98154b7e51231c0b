package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"pgregory.net/rapid"
)

// closing returns a decision of a rule about a caller, with one or two spans.
func closing(spans ...int64) *schemas.Decision {
	d := &schemas.Decision{Rule: "r", Caller: schemas.Caller{Kind: Kind, ID: "c"}, CloseAt: spans[0], Until: spans[1]}
	if len(spans) > 2 {
		d.Next = schemas.Span{CloseAt: spans[2], Until: spans[3]}
	}
	return d
}

// TestClosuresAreWhatGatesHeld: not what was decided, but what was in force.
func TestClosuresAreWhatGatesHeld(t *testing.T) {
	type step struct {
		now   int64
		spans []int64
	}
	for name, tt := range map[string]struct {
		steps   []step
		want    []interval
		longest time.Duration
	}{
		"one closure":                   {[]step{{10, []int64{5, 20}}}, []interval{{10, 20}}, 10},
		"ahead of time":                 {[]step{{10, []int64{15, 20}}}, []interval{{15, 20}}, 5},
		"over on arrival":               {[]step{{30, []int64{15, 20}}}, nil, 0},
		"moved while closed":            {[]step{{10, []int64{10, 20}}, {15, []int64{10, 30}}}, []interval{{10, 30}}, 20},
		"opened":                        {[]step{{10, []int64{10, 50}}, {15, []int64{10, 10}}}, []interval{{10, 15}}, 5},
		"withdrawn before it began":     {[]step{{10, []int64{20, 50}}, {15, []int64{10, 10}}}, nil, 0},
		"two spans":                     {[]step{{10, []int64{10, 20, 30, 45}}}, []interval{{10, 20}, {30, 45}}, 15},
		"the second confirmed":          {[]step{{10, []int64{10, 20, 30, 45}}, {32, []int64{30, 60}}}, []interval{{10, 20}, {30, 60}}, 30},
		"the second replaced before it": {[]step{{10, []int64{10, 20, 30, 45}}, {25, []int64{35, 40}}}, []interval{{10, 20}, {35, 40}}, 10},
		"again and again":               {[]step{{10, []int64{10, 20}}, {12, []int64{10, 20}}, {14, []int64{10, 20}}}, []interval{{10, 20}}, 10},
		"runs past the end":             {[]step{{10, []int64{10, 2000}}}, []interval{{10, 100}}, 90},
		"with a gap that is closed":     {[]step{{10, []int64{10, 20}}, {20, []int64{20, 30}}}, []interval{{10, 30}}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			var c closures
			for _, s := range tt.steps {
				c.apply(closing(s.spans...), s.now)
			}
			c.finish(100)
			d := closing(0, 0)
			if got := c.of[closureKey{d.Rule, d.Caller}].held; !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got := c.longest(d.Rule, d.Caller); got != tt.longest {
				t.Errorf("got the longest %d, want %d", got, tt.longest)
			}
			if got := c.longest("other", d.Caller); got != 0 {
				t.Errorf("got %d for a rule that closed nobody", got)
			}
		})
	}
}

// TestClosuresAgainstEachInstant: whatever decisions come, the intervals hold exactly the instants at which the newest decision
// closed the caller.
func TestClosuresAgainstEachInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 60
		var c closures
		closed := [end]bool{}
		newest, since := closing(0, 0), int64(0)
		note := func(until int64) {
			for at := since; at < until; at++ {
				closed[at] = newest.CloseAt <= at && at < newest.Until || newest.Next.Covers(at)
			}
			since = until
		}
		c.apply(newest, 0)
		for now := int64(0); now < end; now += rapid.Int64Range(0, 20).Draw(t, "wait") {
			note(now)
			at := rapid.SliceOfN(rapid.Int64Range(0, end), 4, 4).Draw(t, "spans")
			slices.Sort(at)
			newest = closing(at...)
			c.apply(newest, now)
		}
		note(end)
		c.finish(end)
		held := c.of[closureKey{newest.Rule, newest.Caller}].held
		for at := range int64(end) {
			in := slices.ContainsFunc(held, func(i interval) bool { return i.from <= at && at < i.to })
			if in != closed[at] {
				t.Fatalf("at %d: got closed %t, want %t: %v", at, in, closed[at], held)
			}
		}
		for i := 1; i < len(held); i++ {
			if held[i].from <= held[i-1].to {
				t.Fatalf("got %v, want intervals apart from each other", held)
			}
		}
	})
}

// TestClosuresAreBounded: a run of any length keeps a bounded number, the newest ones.
func TestClosuresAreBounded(t *testing.T) {
	var c closures
	for i := range int64(3 * maxIntervals) {
		c.apply(closing(10*i, 10*i+5), 10*i)
	}
	c.finish(1 << 40)
	for _, l := range c.of {
		if n := len(l.held); n > maxIntervals || n < maxIntervals/2 || l.longest != 5 {
			t.Errorf("got %d intervals, the longest of %d, want at most %d of 5", n, l.longest, maxIntervals)
		}
		if last := l.held[len(l.held)-1]; last.from != 10*(3*maxIntervals-1) {
			t.Errorf("got the last from %d", last.from)
		}
	}
}

package policy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// held returns a state under a rule: so much weight at each of some times in milliseconds.
func held(r *rules.Rule, pairs ...int64) (s window.State) {
	for i := 0; i < len(pairs); i += 2 {
		s, _ = r.Window.Add(s, r.Limit, pairs[i]*ms, pairs[i+1])
	}
	return s
}

// TestCross: a caller sends 1000 a second from 400 ms on; when is its window full, and until when, in milliseconds?
func TestCross(t *testing.T) {
	const none = -1
	var steady []int64 // 900 in the last second
	for at := int64(5); at < 1000; at += 10 {
		steady = append(steady, at, 9)
	}
	for name, test := range map[string]struct {
		rule           string
		state          []int64
		from, to       int64
		rate           int64
		closeAt, until int64
	}{
		"an empty fixed window":                 {"limit: 100, window: 1s, algorithm: fixed", nil, 400, 900, 1000, 500, 1000},
		"half full":                             {"limit: 100, window: 1s, algorithm: fixed", []int64{100, 50}, 400, 900, 1000, 450, 1000},
		"not before the end":                    {"limit: 100, window: 1s, algorithm: fixed", nil, 400, 490, 1000, none, 0},
		"the next window begins empty":          {"limit: 300, window: 1s, algorithm: fixed", []int64{100, 50}, 800, 2000, 1000, 1300, 2000},
		"nobody comes":                          {"limit: 100, window: 1s, algorithm: fixed", []int64{100, 50}, 400, 900, 0, none, 0},
		"full already":                          {"limit: 100, window: 1s, algorithm: fixed", []int64{100, 100}, 400, 900, 1000, 400, 1000},
		"a fraction a window":                   {"limit: 100, window: 10s, algorithm: fixed", []int64{100, 99}, 400, 9000, 1, 1400, 10_000},
		"a calendar":                            {"limit: 100, window: hour", []int64{100, 50}, 400, 900, 1000, 450, 3600_000},
		"slots that leave make room":            {"limit: 100, window: 1s, slots: 10", []int64{50, 60, 350, 30}, 1095, 1300, 1000, 1165, 1400},
		"many slots later":                      {"limit: 600, window: 1s, slots: 100", nil, 400, 1300, 1000, 1000, 1450},
		"many slots that leave as much":         {"limit: 1000, window: 1s, slots: 100", steady, 1000, 1500, 900, none, 0},
		"so that it is never full":              {"limit: 300, window: 1s, slots: 10", []int64{50, 60, 350, 30}, 1050, 1300, 1000, none, 0},
		"a log, as entries leave it":            {"limit: 100, window: 1s, algorithm: log", []int64{50, 60, 350, 30}, 1060, 1300, 1000, 1130, 1350},
		"a log whose last entry leaves it then": {"limit: 100, window: 1s, algorithm: log", []int64{50, 60}, 1050, 1300, 1000, 1150, 2062},
		"a bucket drains meanwhile":             {"limit: 500, window: 1s, algorithm: gcra, burst: 50", nil, 400, 900, 1000, 500, 501},
		"a bucket that drains one a second":     {"limit: 1, window: 1s, algorithm: gcra, burst: 10", nil, 400, 2000, 20, 904, 1479},
		"a bucket that drains as fast as that":  {"limit: 1000, window: 1s, algorithm: gcra, burst: 50", nil, 400, 900, 900, none, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule(t, test.rule)
			state := held(r, test.state...)
			before := slices.Clone(state)
			c, ok, _ := Cross(r, state, r.Limit, test.from*ms, test.to*ms, test.rate*1000, nil)
			if !slices.Equal(state, before) {
				t.Errorf("got state %v, want %v as it was", state, before)
			}
			near := func(got, want int64) bool { return got >= (want-3)*ms && got <= (want+3)*ms }
			if ok != (test.closeAt != none) || ok && (!near(c.CloseAt, test.closeAt) || !near(c.Until, test.until)) {
				t.Errorf("got %v, %d to %d ms, want %d to %d", ok, c.CloseAt/ms, c.Until/ms, test.closeAt, test.until)
			}
		})
	}
}

// TestATimeBeforeAWindowFillsNothing: the window that is full is another one.
func TestATimeBeforeAWindowFillsNothing(t *testing.T) {
	r := rule(t, "limit: 100, window: 1s, slots: 10")
	if c, ok, _ := Fill(r, held(r, 9000, 100), r.Limit, 1000*ms); ok {
		t.Errorf("got %+v, want none", c)
	}
}

// TestCrossAgainstRequestsOneByOne: what Cross says of a steady stream is what happens when its requests are counted one by one, in
// any window with any past.
func TestCrossAgainstRequestsOneByOne(t *testing.T) {
	all := []*rules.Rule{
		rule(t, "limit: 100, window: 1s, algorithm: fixed"), rule(t, "limit: 100, window: 1s, slots: 10"),
		rule(t, "limit: 100, window: 1s, slots: 100"), rule(t, "limit: 100, window: 1s, algorithm: log"),
		rule(t, "limit: 100, window: 1s, algorithm: gcra"), rule(t, "limit: 200, window: 1s, algorithm: gcra, burst: 30"),
	}
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(all).Draw(t, "rule")
		var state window.State
		from := int64(0)
		for range rapid.IntRange(0, 30).Draw(t, "past") {
			from += rapid.Int64Range(1, 60*ms).Draw(t, "pause")
			if r.Window.View(state, r.Limit, from).Full(from) {
				continue
			}
			state, _ = r.Window.Add(state, r.Limit, from, rapid.Int64Range(1, 6).Draw(t, "weight"))
		}
		if r.Window.View(state, r.Limit, from).Full(from) {
			return
		}
		rate := rapid.Int64Range(50, 3000).Draw(t, "rate")
		to := from + 250*ms
		c, ok, _ := Cross(r, state, r.Limit, from, to, rate*1000, nil)
		every, closed := 1_000_000_000/rate, int64(0)
		one := slices.Clone(state)
		for at := from + every; at < to && closed == 0; at += every {
			var count window.Count
			if one, count = r.Window.Add(one, r.Limit, at, 1); count.Full(at) {
				closed = at
			}
		}
		slack := 3*every + 13*ms // and a step in which weight leaves
		switch {
		case ok && (c.CloseAt < from || c.CloseAt >= to+slack || c.Until <= c.CloseAt):
			t.Fatalf("got %+v of %d to %d", c, from, to)
		case ok && closed == 0 && c.CloseAt < to-slack && !borders(r, one, to):
			t.Fatalf("got %+v at %d a second, want no close before %d; state %v", c, rate, to, one)
		case closed != 0 && closed < to-slack && !ok:
			t.Fatalf("got no close at %d a second, want %d of %d to %d", rate, closed, from, to)
		case closed != 0 && ok && (c.CloseAt < closed-slack || c.CloseAt > closed+slack) && !borders(r, one, closed):
			t.Fatalf("got %d at %d a second, want %d", c.CloseAt, rate, closed)
		}
	})
}

// borders reports whether weight leaves the window about as fast as it comes: then a request more or less decides.
func borders(r *rules.Rule, s window.State, t int64) bool {
	return r.Window.Traits().Slot < 250*ms && r.Window.View(s, r.Limit, t).Total >= r.Window.Capacity(r.Limit)*8/10
}

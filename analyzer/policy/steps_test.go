package policy

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/window"
)

// closesAt returns closes in a row of one second each, numbered from 1, of the given peaks.
func closesAt(every time.Duration, peaks ...int64) []Closure {
	closes := make([]Closure, len(peaks))
	for i, peak := range peaks {
		at := int64(every) * int64(i)
		closes[i] = Closure{CloseAt: at, Until: at + int64(sec), Nth: int64(i) + 1, Peak: peak}
	}
	return closes
}

// numbers returns the numbers and peaks of closes.
func numbers(closes ...Closure) (list [][2]int64) {
	for _, c := range closes {
		list = append(list, [2]int64{c.Nth, c.Peak})
	}
	return list
}

// TestRecount: closes a minute apart, each of which lasts a second; then the limit is another one. The last of them is the latest close.
func TestRecount(t *testing.T) {
	t.Parallel()
	const escalates = "limit: 10, window: 10s, algorithm: fixed, close_for: 1s, escalate: {factor: 2, max: 1h, forget: 10m}"
	tests := map[string]struct {
		rule      string
		every     time.Duration
		peaks     []int64
		limit     int64
		unlimited bool
		open      bool // the latest has ended
		want      [][2]int64
	}{
		"nothing is allowed":              {escalates, minu, []int64{10, 12, 11}, 10, false, true, [][2]int64{{1, 10}, {2, 12}, {3, 11}}},
		"a lower limit":                   {escalates, minu, []int64{10, 12, 11}, 5, false, true, [][2]int64{{1, 10}, {2, 12}, {3, 11}}},
		"all":                             {escalates, minu, []int64{3, 4, 5}, 10, false, true, [][2]int64{{1, 0}}},
		"all, as there is no limit":       {escalates, minu, []int64{30, 40, 50}, 10, true, true, [][2]int64{{1, 0}}},
		"the latest":                      {escalates, minu, []int64{10, 12, 5}, 10, false, true, [][2]int64{{1, 10}, {2, 12}, {3, 0}}},
		"the latest, still closed":        {escalates, minu, []int64{10, 12, 5}, 10, false, false, [][2]int64{{1, 10}, {2, 12}, {3, 5}}},
		"the first":                       {escalates, minu, []int64{3, 12, 11}, 10, false, true, [][2]int64{{1, 12}, {2, 11}}},
		"one between":                     {escalates, minu, []int64{10, 3, 11}, 10, false, true, [][2]int64{{1, 10}, {2, 11}}},
		"several, and the latest stays":   {escalates, minu, []int64{3, 3, 3, 11}, 10, false, false, [][2]int64{{1, 11}}},
		"the rest is too far apart":       {escalates, 4 * minu, []int64{10, 3, 3, 11, 12}, 10, false, true, [][2]int64{{1, 11}, {2, 12}}},
		"the latest is too far apart":     {escalates, 4 * minu, []int64{10, 3, 3, 11}, 10, false, true, [][2]int64{{1, 11}}},
		"one close, undone":               {escalates, minu, []int64{3}, 10, false, true, [][2]int64{{1, 0}}},
		"one close":                       {escalates, minu, []int64{10}, 10, false, true, [][2]int64{{1, 10}}},
		"a rule that no longer escalates": {"limit: 10, window: 10s, algorithm: fixed", minu, []int64{3, 4, 5}, 10, false, true, [][2]int64{{1, 3}, {2, 4}, {3, 5}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closes := closesAt(test.every, test.peaks...)
			was, last := slices.Clone(closes), len(closes)-1
			now := closes[last].CloseAt
			if test.open {
				now = closes[last].Until
			}
			r := rule(t, test.rule)
			prev, steps := Recount(r, test.limit, test.unlimited, closes[last], closes[:last:last], now)
			if got := numbers(append(slices.Clone(steps), prev)...); !slices.Equal(got, test.want) {
				t.Errorf("got numbers and peaks %v, want %v", got, test.want)
			}
			if !slices.Equal(closes, was) {
				t.Errorf("got %v, want the list that was given unchanged: %v", closes, was)
			}
			again, stepsAgain := Recount(r, test.limit, test.unlimited, prev, steps, now)
			if again != prev || !slices.Equal(stepsAgain, steps) {
				t.Errorf("asked again: got %v after %v, want nothing new", again, stepsAgain)
			}
		})
	}
}

// TestStepsAreBounded: a caller closes a hundred times in a row. The last few closes are remembered; if all of these are undone, the
// number of those that are not remembered stays.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	r := rule(t, "limit: 10, window: 1s, algorithm: fixed, close_for: 1s, escalate: {factor: 2, max: 1m, forget: 1h}")
	var c Closure
	var steps []Closure
	for i := range int64(100) {
		t0 := i * int64(2*minu)
		next, change := Step(r, c, steps, t0, window.Count{Total: 10 + i, Until: t0 + 1})
		if change != Closed || next.Nth != i+1 {
			t.Fatalf("close %d: got %v, %+v", i+1, change, next)
		}
		before := slices.Clone(steps)
		now := Steps(steps, c, next)
		if !slices.Equal(steps, before) {
			t.Fatalf("close %d: got %v, want the list before it unchanged", i+1, steps)
		}
		c, steps = next, now
		if want := min(int(i), MaxSteps); len(steps) != want {
			t.Fatalf("close %d: got %d closes before it, want %d", i+1, len(steps), want)
		}
	}
	for i, s := range steps {
		if want := int64(100 - MaxSteps + i); s.Nth != want || s.Peak != 9+want {
			t.Errorf("got %+v, want close number %d", s, want)
		}
	}
	after, kept := Recount(r, math.MaxInt64, false, c, steps, c.Until)
	if after.Nth != 100-MaxSteps || after.Peak != 0 || len(kept) != 0 {
		t.Errorf("all undone: got %+v after %v, want number %d", after, kept, 100-MaxSteps)
	}
}

// TestStepsEndWithAFirstClose: a caller that was forgiven has nothing behind it, and neither has one whose only close was undone.
func TestStepsEndWithAFirstClose(t *testing.T) {
	t.Parallel()
	r := rule(t, "limit: 10, window: 1s, algorithm: fixed, close_for: 1s, escalate: {factor: 2, max: 1m, forget: 1m}")
	closes := closesAt(10*sec, 10, 11, 12)
	late := closes[2].Until + int64(minu)
	next, _ := Step(r, closes[2], closes[:2], late, window.Count{Total: 10, Until: late + 1})
	if steps := Steps(closes[:2], closes[2], next); next.Nth != 1 || steps != nil {
		t.Errorf("forgiven: got %+v after %v, want a first close", next, steps)
	}
	undone := closes[0]
	undone.Peak = 0
	next, _ = Step(r, undone, nil, undone.Until, window.Count{Total: 10, Until: undone.Until + 1})
	if steps := Steps(nil, undone, next); next.Nth != 1 || steps != nil {
		t.Errorf("after a first close that was undone: got %+v after %v, want a first close", next, steps)
	}
	undone = closes[2]
	undone.Peak = 0
	forgiven := closes[1].Until + int64(minu) // before a minute has passed since the undone close
	next, _ = Step(r, undone, closes[:2], forgiven, window.Count{Total: 10, Until: forgiven + 1})
	if steps := Steps(closes[:2], undone, next); next.Nth != 1 || steps != nil {
		t.Errorf("a minute after the latest close that stands: got %+v after %v, want a first close", next, steps)
	}
}

// TestAClosureOfALimitOfOneIsRemembered: also by a rule whose closes do not grow, until the limit is raised.
func TestAClosureOfALimitOfOneIsRemembered(t *testing.T) {
	r := rule(t, "limit: 1, window: 1s, algorithm: fixed, close_for: 10s, escalate: {factor: 1, max: 1m}")
	was := Closure{CloseAt: 5, Until: 10, Nth: 1, Peak: 1}
	if got := Steps(nil, was, Closure{CloseAt: 10, Until: 20, Nth: 2, Peak: 1}); len(got) != 1 || got[0] != was {
		t.Errorf("got %+v, want the close before", got)
	}
	if got, _ := Recount(r, 1, false, was, nil, 30); got != was {
		t.Errorf("got %+v under the same limit, want it as it was", got)
	}
	if got, _ := Recount(r, 2, false, was, nil, 30); got.Peak != 0 {
		t.Errorf("got %+v under a limit of 2, want it undone", got)
	}
}

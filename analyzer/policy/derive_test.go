package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// TestDerive: ten requests at 10 s have closed a caller under a limit of 10; then, at now, the rules change.
func TestDerive(t *testing.T) {
	const (
		fixed  = "limit: 10, window: 1m, algorithm: fixed"
		penal  = "limit: 10, window: 10s, algorithm: fixed, close_for: 1m"
		bucket = "limit: 10, window: 1m, algorithm: gcra" // one in 6 s
	)
	tests := map[string]struct {
		rule      string
		weight    int64 // at 10 s, under the rule
		limit     int64 // then, at now
		unlimited bool
		with      string // what the rule says then, beside its limit; empty: the same
		now       time.Duration
		change    Transition
		until     time.Duration // unless open before and after
	}{
		"nothing changed":                             {fixed, 10, 10, false, "", 20 * sec, Same, minu},
		"a limit that the peak reaches still":         {fixed, 15, 15, false, "", 20 * sec, Same, minu},
		"a raised limit opens at once":                {fixed, 15, 16, false, "", 20 * sec, Opened, 20 * sec},
		"no limit opens at once":                      {fixed, 1000, 10, true, "", 20 * sec, Opened, 20 * sec},
		"a lowered limit closes at once":              {fixed, 7, 5, false, "", 20 * sec, Closed, minu},
		"a lowered limit that is not reached":         {fixed, 7, 8, false, "", 20 * sec, Same, 0},
		"no limit, and open anyway":                   {fixed, 7, 5, true, "", 20 * sec, Same, 0},
		"a lowered limit, the window over":            {fixed, 7, 5, false, "", minu, Same, 0},
		"closed before, and the window over":          {fixed, 10, 5, false, "", minu, Same, 0},
		"lower still, while closed":                   {fixed, 10, 5, false, "", 20 * sec, Same, minu},
		"longer from now on":                          {fixed, 10, 10, false, "close_for: 2m", 20 * sec, Moved, 130 * sec},
		"the penalty is taken back":                   {penal, 10, 10, false, "close_for: 11s", 30 * sec, Opened, 30 * sec},
		"the penalty is shortened":                    {penal, 10, 10, false, "close_for: 40s", 30 * sec, Moved, 50 * sec},
		"an empty window, the penalty running":        {penal, 10, 9, false, "", 30 * sec, Same, 70 * sec},
		"and a limit over the peak":                   {penal, 10, 11, false, "", 30 * sec, Opened, 30 * sec},
		"a sliding window, lower while closed":        {"limit: 10, window: 1m, slots: 6", 10, 3, false, "", 20 * sec, Same, 80 * sec},
		"a bucket, nothing changed":                   {bucket, 10, 10, false, "", 12 * sec, Same, 16 * sec},
		"a bucket is as full as it was, of its size":  {bucket, 10, 100, false, "", 10 * sec, Moved, 10600 * time.Millisecond},
		"a bucket that has drained opens":             {bucket, 12, 100, false, "", 25 * sec, Opened, 25 * sec},
		"a bucket lowered stays open at a lower fill": {bucket, 5, 4, false, "", 10 * sec, Same, 0},
		"a bucket made smaller closes":                {bucket + ", burst: 10", 5, 10, false, "burst: 4", 10 * sec, Closed, 22 * sec},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := rule(t, test.rule)
			state, count := before.Window.Add(nil, before.Limit, int64(10*sec), test.weight)
			c, _ := Step(before, Closure{}, nil, int64(10*sec), count)
			after := before
			if test.with != "" {
				after = changed(t, test.rule, test.with)
			}
			now := int64(test.now)
			got, change := Derive(after, test.limit, test.unlimited, false, c, nil, now, after.Window.View(state, test.limit, now))
			if change != test.change {
				t.Errorf("got %v, want %v: %+v became %+v", change, test.change, c, got)
			}
			if test.until != 0 && got.Until != int64(test.until) {
				t.Errorf("got until %v, want %v", time.Duration(got.Until), test.until)
			}
			if again, change := Derive(after, test.limit, test.unlimited, false, got, nil, now, after.Window.View(state, test.limit, now)); change != Same || again != got {
				t.Errorf("asked again: got %v, %+v, want nothing new", change, again)
			}
		})
	}
}

// TestAnUndoneCloseIsNoStep: a close that ends because rules or people say so counts as none in a row; the next one has its number. One
// that moves, or that opens because its penalty is shorter now, counts.
func TestAnUndoneCloseIsNoStep(t *testing.T) {
	const (
		fixed  = "limit: 10, window: 10s, algorithm: fixed, close_for: 30s, escalate: {factor: 10, max: 1h, forget: 10m}"
		bucket = "limit: 10, window: 10s, algorithm: gcra, close_for: 30s, escalate: {factor: 10, max: 1h, forget: 10m}"
	)
	tests := map[string]struct {
		rule      string
		limit     int64
		unlimited bool
		with      string
		change    Transition
		nth       int64 // of the next close
	}{
		"opened by hand":                     {fixed, 10, true, "", Opened, 3},
		"the limit allows the peak":          {fixed, 20, false, "", Opened, 3},
		"a bucket that has to drain a while": {bucket, 12, false, "", Moved, 3},
		"nothing changed":                    {fixed, 10, false, "", Same, 4},
		"a lower limit":                      {fixed, 5, false, "", Same, 4},
		"a shorter penalty":                  {fixed, 10, false, "close_for: 1s, escalate: {factor: 1, max: 1s, forget: 10m}", Opened, 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := rule(t, test.rule)
			state, count := r.Window.Add(nil, 10, int64(9*sec), 11)
			second := Closure{Nth: 2, Until: int64(8 * sec), Peak: 10}
			c, _ := Step(r, second, nil, int64(9*sec), count)
			steps := Steps(nil, second, c)
			after := r
			if test.with != "" {
				after = changed(t, test.rule, test.with)
			}
			now := int64(9*sec) + 1
			if strings.Contains(test.with, "close_for") {
				now = int64(11 * sec)
			}
			got, change := Derive(after, test.limit, test.unlimited, false, c, steps, now, after.Window.View(state, test.limit, now))
			if change != test.change || got.Nth != 3 {
				t.Fatalf("got %v, %+v, want %v of the third", change, got, test.change)
			}
			if change == Moved { // more comes while it is closed: that does not make it count
				got, _ = Step(after, got, steps, now, window.Count{Total: 12, Until: got.Until + 1})
			}
			late := got.Until + int64(sec)
			next, change := Step(r, got, steps, late, window.Count{Total: 10, Until: late + 1})
			if change != Closed || next.Nth != test.nth || next.Peak != 10 {
				t.Errorf("then: got %v, %+v, want the close to be number %d", change, next, test.nth)
			}
			if again, _ := Step(r, next, nil, next.Until+1, window.Count{Total: 10, Until: next.Until + 2}); again.Nth != test.nth+1 {
				t.Errorf("and then: got %+v, want number %d", again, test.nth+1)
			}
		})
	}
	if next, _ := Step(rule(t, fixed), Closure{Nth: 1, Until: 5}, nil, 6, window.Count{Total: 10, Until: 7}); next.Nth != 1 {
		t.Errorf("after a first close that was undone: got %+v, want a first one", next)
	}
}

// changed returns the rule with a field added, in place of its like.
func changed(t *testing.T, fields, with string) *rules.Rule {
	t.Helper()
	r := rule(t, fields)
	copied := *r
	other := rule(t, "limit: 10, window: 1m, algorithm: gcra, "+with)
	copied.CloseFor, copied.Escalate = other.CloseFor, other.Escalate
	if other.Burst != 0 {
		copied.Burst, copied.Window = other.Burst, other.Window
	}
	return &copied
}

func TestDeriveEscalates(t *testing.T) {
	r := rule(t, "limit: 5, window: 1m, algorithm: fixed, close_for: 30s, escalate: {factor: 10, max: 1h, forget: 10m}")
	prev := Closure{CloseAt: 0, Until: int64(30 * sec), Nth: 1, Peak: 9}
	state, _ := r.Window.Add(nil, 100, int64(70*sec), 7)
	now := int64(80 * sec)
	got, change := Derive(r, 5, false, false, prev, nil, now, r.Window.View(state, 5, now))
	want := Closure{CloseAt: now, Until: now + int64(5*minu), Nth: 2, Peak: 7}
	if change != Closed || got != want {
		t.Errorf("got %v, %+v, want %+v: another close in a row", change, got, want)
	}
}

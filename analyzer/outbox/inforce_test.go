package outbox

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
)

// now is when these tests happen, in Unix nanoseconds.
const now = int64(1_700_000_000_000_000_000)

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// about returns a decision about a caller.
func about(id string, closeAt, until int64) schemas.Decision {
	return schemas.Decision{Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: closeAt, Until: until}
}

// TestClosuresRepeatedAreBounded: an attacker that gets ever more callers closed fills no memory. Those that open first are
// no longer repeated; expired ones go before.
func TestClosuresRepeatedAreBounded(t *testing.T) {
	f := NewInForce(80)
	for n := range 1000 {
		d := about(fmt.Sprint(n), now-1, now+int64(n+1)*sec)
		if n%10 == 0 {
			d.Until = now - 1
		}
		f.put(KeyOf(&d), d)
		f.bound(now)
		if f.Len() > 91 {
			t.Fatalf("after %d: got %d closures, want at most 9/8 of 80 rows", n, f.Len())
		}
	}
	for key := range f.decisions {
		if f.decisions[key].Until < now+850*sec {
			t.Errorf("got %s, which opens at %v, kept before those that open later", key.Caller, time.Duration(f.decisions[key].Until-now))
		}
	}
	if f.Len() < 70 {
		t.Errorf("got %d closures left, want most of the bound", f.Len())
	}
}

// TestClosuresAreForgottenOnlyWhenTooMany: all of nine eighths of the rows stay. One more makes room: those that have ended go, however
// many they are. If none has ended, an eighth goes, so that the next search is far away.
func TestClosuresAreForgottenOnlyWhenTooMany(t *testing.T) {
	for name, test := range map[string]struct{ ended, want int }{
		"none has ended":        {0, 80},
		"half of them have":     {45, 47},
		"one of them has ended": {1, 80},
	} {
		f := NewInForce(80)
		for n := range 92 {
			if n == 91 && f.Len() != 91 {
				t.Errorf("%s: got %d closures before there are too many, want 91", name, f.Len())
			}
			at, d := now, about(fmt.Sprint(n), now, now+2*sec)
			if n < test.ended {
				d.Until = now + sec
			}
			if n == 91 {
				at = now + sec
			}
			f.Set(&d, at)
		}
		if f.Len() != test.want {
			t.Errorf("%s: got %d closures left, want %d", name, f.Len(), test.want)
		}
	}
}

// TestACycleLeavesOutWhatWasOpened since the cycle began, and repeats all others.
func TestACycleLeavesOutWhatWasOpened(t *testing.T) {
	f := NewInForce(10)
	for _, id := range []string{"a", "b", "c", "d"} {
		d := about(id, now, now+sec)
		f.Set(&d, now)
	}
	f.BeginCycle(now, 1)
	first := f.Next(1, now)[0]
	first.Until = now
	f.Set(&first, now)
	var ids []string
	for _, d := range f.Next(f.Left(), now) {
		ids = append(ids, d.Caller.ID)
	}
	slices.Sort(ids)
	want := slices.DeleteFunc([]string{"a", "b", "c", "d"}, func(id string) bool { return id == first.Caller.ID })
	if !slices.Equal(ids, want) {
		t.Errorf("got %v repeated, want %v", ids, want)
	}
}

// TestWhatIsPredictedIsNotRepeated by itself: it ends by itself. But a repeat replaces all that gates know, so it carries what
// is still to come.
func TestWhatIsPredictedIsNotRepeated(t *testing.T) {
	with := func(first, next schemas.Span) schemas.Decision {
		d := about("a", first.CloseAt, first.Until)
		d.Early, d.Next = first.Early, next
		return d
	}
	countedNext := schemas.Span{CloseAt: next.CloseAt, Until: next.Until}
	for name, test := range map[string]struct {
		d    schemas.Decision
		at   int64
		want []([2]schemas.Span)
	}{
		"counted":                              {with(counted, none), now, [][2]schemas.Span{{counted, none}}},
		"counted, and over":                    {with(counted, none), counted.Until, nil},
		"predicted":                            {with(early, none), now, nil},
		"both":                                 {with(counted, next), now, [][2]schemas.Span{{counted, next}}},
		"both, the counted one is over":        {with(counted, next), counted.Until, nil},
		"both, and both are over":              {with(counted, next), next.Until, nil},
		"predicted, and then counted":          {with(early, countedNext), now, [][2]schemas.Span{{early, countedNext}}},
		"predicted and over, and then counted": {with(early, countedNext), next.CloseAt, [][2]schemas.Span{{early, countedNext}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewInForce(10)
			f.Set(&test.d, now)
			f.BeginCycle(test.at, 1)
			var got [][2]schemas.Span
			for _, d := range f.Next(f.Left(), test.at) {
				got = append(got, spans(&d))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %+v repeated, want %+v", got, test.want)
			}
		})
	}
	f := NewInForce(10)
	long := with(schemas.Span{CloseAt: now, Until: now + 3600*sec}, none)
	long.Next = schemas.Span{CloseAt: long.Until, Until: long.Until, Early: true}
	f.Set(&long, now)
	f.BeginCycle(now, 1)
	if got := f.Next(1, long.Until); len(got) != 1 || got[0].Next != none {
		t.Errorf("got %+v, want it without what is over", got)
	}
}

// TestAPredictionReplacesWhatWasInForce, because gates take it so.
func TestAPredictionReplacesWhatWasInForce(t *testing.T) {
	f := NewInForce(10)
	d := about("a", now, now+sec)
	f.Set(&d, now)
	d.CloseAt, d.Early = now+10*ms, true
	f.Set(&d, now)
	if f.Len() != 0 {
		t.Errorf("got %d in force, want none", f.Len())
	}
}

// TestPredictionsFillNoMemory: they neither count in the bound nor displace closures.
func TestPredictionsFillNoMemory(t *testing.T) {
	f := NewInForce(80)
	for n := range 80 {
		d := about(fmt.Sprint("counted-", n), now, now+sec)
		f.Set(&d, now)
	}
	for n := range 1000 {
		d := about(fmt.Sprint("early-", n), now, now+3600*sec)
		d.Early = true
		f.Set(&d, now)
	}
	if f.Len() != 80 {
		t.Errorf("got %d in force, want the 80 that were counted", f.Len())
	}
}

// TestReconcileLeavesWhatEndsByItself: of what gates believe only the counted closure is compared.
func TestReconcileLeavesWhatEndsByItself(t *testing.T) {
	w := newTeller(t)
	opened := [2]schemas.Span{{CloseAt: now, Until: now}, none}
	longer := schemas.Span{CloseAt: now, Until: next.CloseAt + 50*ms}
	for name, test := range map[string]struct {
		believed       [2]schemas.Span
		counted        int64 // until
		keep           bool
		open, repeated [][2]schemas.Span
	}{
		"predicted, and nothing counted":          {[2]schemas.Span{early, none}, 0, false, nil, nil},
		"predicted, and a rule that lost weight":  {[2]schemas.Span{early, none}, 0, true, nil, nil},
		"predicted, and counted since":            {[2]schemas.Span{early, none}, counted.Until, false, nil, [][2]schemas.Span{{counted, none}}},
		"closed, and nothing counted":             {[2]schemas.Span{counted, none}, 0, false, [][2]schemas.Span{opened}, nil},
		"closed with a next, and nothing counted": {[2]schemas.Span{counted, next}, 0, false, [][2]schemas.Span{opened}, nil},
		"the same, of a rule that lost weight":    {[2]schemas.Span{counted, next}, 0, true, nil, [][2]schemas.Span{{counted, next}}},
		"closed with a next, and counted so":      {[2]schemas.Span{counted, next}, counted.Until, false, nil, [][2]schemas.Span{{counted, next}}},
		"a next that is over when this one ends":  {[2]schemas.Span{counted, next}, next.Until, false, nil, [][2]schemas.Span{{{CloseAt: now, Until: next.Until}, none}}},
		"a move that was lost with the publisher": {[2]schemas.Span{counted, next}, longer.Until, false, nil, [][2]schemas.Span{{longer, {CloseAt: longer.Until, Until: next.Until, Early: true}}}},
		"a close that was lost with it":           {[2]schemas.Span{}, counted.Until, false, nil, [][2]schemas.Span{{counted, none}}},
		"a next that is over":                     {[2]schemas.Span{counted, {CloseAt: now - 1, Until: now, Early: true}}, counted.Until, false, nil, [][2]schemas.Span{{counted, none}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewInForce(10)
			p := w.plan(test.believed[0], test.believed[1]).Decision
			believed := map[Key]schemas.Decision{KeyOf(&p): p}
			var changes []fold.Change
			if test.counted > 0 {
				changes = []fold.Change{w.closed(test.counted, none)}
			}
			var open, repeated [][2]schemas.Span
			for _, d := range f.Reconcile(believed, changes, now, func(*schemas.Decision) bool { return test.keep }) {
				open = append(open, spans(&d))
			}
			f.BeginCycle(now, 0)
			for _, d := range f.Next(f.Left(), now) {
				repeated = append(repeated, spans(&d))
			}
			if !slices.Equal(open, test.open) || !slices.Equal(repeated, test.repeated) {
				t.Errorf("got opened %+v and repeated %+v, want %+v and %+v", open, repeated, test.open, test.repeated)
			}
		})
	}
}

// heldByRule counts what is held, one by one.
func heldByRule(f *InForce) map[RuleMode]int {
	held := make(map[RuleMode]int)
	for key := range f.decisions {
		d := f.decisions[key]
		held[ruleModeOf(&d)]++
	}
	return held
}

// TestByRuleIsWhatIsHeld after any sequence of closes, moves, changes of mode, ends, cycles, a full memory and a take-over.
func TestByRuleIsWhatIsHeld(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 3))
	f, at := NewInForce(40), now
	for step := range 5_000 {
		at += random.Int64N(sec)
		d := about(fmt.Sprint(random.IntN(60)), at, at+random.Int64N(60*sec)-5*sec)
		d.Rule = fmt.Sprint("r", random.IntN(3))
		d.Mode = []schemas.Mode{schemas.ModeEnforce, schemas.ModeShadow}[random.IntN(2)]
		switch random.IntN(20) {
		case 0:
			f.BeginCycle(at, int64(step))
			f.Repeated(f.Left())
		case 1:
			believed := map[Key]schemas.Decision{KeyOf(&d): d}
			f.Reconcile(believed, []fold.Change{}, at, func(*schemas.Decision) bool { return random.IntN(2) == 0 })
		default:
			f.Set(&d, at)
		}
		sum := 0
		for r, n := range f.ByRule() {
			if sum += n; n <= 0 {
				t.Fatalf("step %d: got %d of %v, want only what is held", step, n, r)
			}
		}
		if got, want := f.ByRule(), heldByRule(f); !maps.Equal(got, want) || sum != f.Len() {
			t.Fatalf("step %d: got %v, want %v and %d in all", step, got, want, f.Len())
		}
	}
}

// TestByRuleFollowsTheMode: a rule that goes to shadow takes its closures with it, one by one as they are published.
func TestByRuleFollowsTheMode(t *testing.T) {
	f := NewInForce(10)
	for _, id := range []string{"a", "b"} {
		d := about(id, now, now+sec)
		f.Set(&d, now)
	}
	d := about("a", now, now+sec)
	d.Mode = schemas.ModeShadow
	f.Set(&d, now)
	if got := f.ByRule(); got[RuleMode{"r", schemas.ModeEnforce}] != 1 || got[RuleMode{"r", schemas.ModeShadow}] != 1 {
		t.Errorf("got %v, want one in each mode", got)
	}
	d.Until = now - 1
	f.Set(&d, now)
	if got := f.ByRule(); len(got) != 1 {
		t.Errorf("got %v, want the one that was opened gone", got)
	}
}

package outbox

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
)

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

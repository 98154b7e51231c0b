package fold

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

const millisecond = int64(time.Millisecond)

// loop is a caller, a gate and a lag around a fold, in virtual time: what the gate has blocked is in the log as such.
type loop struct {
	fold     *Fold
	lag      int64
	now      int64 // Unix nanoseconds
	gate     []pendingSpan
	spans    []schemas.Span  // in force at the gate
	admitted map[int64]int64 // by window
	window   int64
	early    int64 // requests that an early closure has blocked
	plans    []predict.Plan
	changes  []Change
	canaries bool
}

// pendingSpan is a decision on its way to the gate.
type pendingSpan struct {
	at    int64
	spans []schemas.Span
}

func newLoop(t foldtest.T, lag time.Duration, window time.Duration, rule string) *loop {
	t.Helper()
	f := New(foldtest.Rules(t, rule), Options{Predict: rules.PredictEarly, NoStore: true})
	return &loop{fold: f, lag: int64(lag), now: frameNow, admitted: make(map[int64]int64), window: int64(window), canaries: true}
}

// flush takes what the fold has decided, and sends it to the gate.
func (l *loop) flush() {
	for _, c := range l.fold.TakeChanges() {
		if c.Kind == policy.Same {
			continue
		}
		l.changes = append(l.changes, c)
		l.send(schemas.Span{CloseAt: c.Closure.CloseAt, Until: c.Closure.Until}, c.Next)
	}
	for _, p := range l.fold.TakePlans() {
		l.plans = append(l.plans, p)
		l.send(schemas.Span{CloseAt: p.Decision.CloseAt, Until: p.Decision.Until, Early: p.Decision.Early}, p.Decision.Next)
	}
}

func (l *loop) send(spans ...schemas.Span) {
	l.gate = append(l.gate, pendingSpan{l.now + l.lag, spans})
}

// request is one request at the gate.
func (l *loop) request(at int64) {
	for len(l.gate) > 0 && l.gate[0].at <= at {
		l.spans, l.gate = l.gate[0].spans, l.gate[1:]
	}
	e := schemas.Entry{Time: at, Kind: "key", ID: "a", Count: 1}
	for _, s := range l.spans {
		if s.Covers(at) {
			e.Blocked, e.Early = true, s.Early
		}
	}
	if !e.Blocked {
		l.admitted[at/l.window]++
	} else if e.Early {
		l.early++
	}
	l.fold.Entry(&e)
}

// run sends requests as they come at random at a rate a second, for some seconds.
func (l *loop) run(rng *rand.Rand, rate float64, seconds int) {
	end, flush, canary := l.now+int64(seconds)*second, l.now, l.now
	for next := l.now; ; {
		next += int64(rng.ExpFloat64() / rate * float64(second))
		for at := min(next, end); flush <= at; flush += 5 * millisecond {
			if l.now = flush; flush >= canary && l.canaries {
				l.fold.Measure(flush, l.lag)
				canary += second
			}
			l.flush()
		}
		if next > end {
			l.now = end
			return
		}
		l.request(next)
	}
}

// TestASaturatingCallerIsClosedAheadOfTime: scenario A by one server, at three lags.
func TestASaturatingCallerIsClosedAheadOfTime(t *testing.T) {
	for _, test := range []struct {
		lag       time.Duration
		overshoot float64 // mean of all windows from the fifth on
		lost      float64
	}{
		{200 * time.Millisecond, 0.012, 0.03}, {50 * time.Millisecond, 0.006, 0.02}, {5 * time.Millisecond, 0.005, 0.02},
	} {
		t.Run(fmt.Sprint(test.lag), func(t *testing.T) {
			l := newLoop(t, test.lag, time.Second, "{name: r, callers: key, limit: 1000, window: 1s, algorithm: fixed}")
			l.run(rand.New(rand.NewPCG(1, 2)), 2000, 30)
			over, lost, n := 0.0, 0.0, 0.0
			for w, admitted := range l.admitted {
				if w >= frameNow/second+5 && w < l.now/second {
					over += max(0, float64(admitted-1000)/1000)
					lost += max(0, float64(1000-admitted)/1000)
					n++
				}
			}
			t.Logf("overshoot %.4f, lost %.4f, %d plans, %d changes", over/n, lost/n, len(l.plans), len(l.changes))
			if over/n > test.overshoot || lost/n > test.lost {
				t.Errorf("got overshoot %.4f and lost %.4f, want at most %.4f and %.4f", over/n, lost/n, test.overshoot, test.lost)
			}
		})
	}
}

// TestTheNextCloseIsPublishedBeforeTheWindowOpens: a saturating caller hears of its next close in the decision about the one in force.
func TestTheNextCloseIsPublishedBeforeTheWindowOpens(t *testing.T) {
	l := newLoop(t, 200*time.Millisecond, time.Second, "{name: r, callers: key, limit: 100, window: 1s, slots: 4}")
	l.run(rand.New(rand.NewPCG(5, 6)), 600, 20)
	next := 0
	for _, p := range l.plans {
		if d := p.Decision; !d.Early {
			next++
			if d.Next.CloseAt <= d.Until || !d.Next.Early {
				t.Errorf("got %+v, want an early close after the one in force", d)
			}
		}
	}
	for _, c := range l.changes {
		if c.Next != (schemas.Span{}) {
			if c.Next.CloseAt <= c.Closure.Until || !c.Next.Early || c.Next.Until <= c.At {
				t.Errorf("got %+v after %+v at %d, want one that holds, and apart", c.Next, c.Closure, c.At)
			}
		}
	}
	if next < 10 {
		t.Errorf("got %d of %d plans beside a closure in force, want many", next, len(l.plans))
	}
}

// TestBoundsAreObserved: of each close of a caller whose demand is known, beside the overshoot that it had.
func TestBoundsAreObserved(t *testing.T) {
	l := newLoop(t, 100*time.Millisecond, time.Second, "{name: r, callers: key, limit: 1000, window: 1s, algorithm: fixed}")
	l.run(rand.New(rand.NewPCG(7, 8)), 2000, 60)
	over, closes := 0, 0
	for _, c := range l.changes {
		if c.Kind != policy.Closed {
			continue
		}
		if closes++; c.Bound <= c.Expected || c.Rate < 1000 || c.Rate > 4000 {
			t.Errorf("got bound %v, expected %v at %v a second", c.Bound, c.Expected, c.Rate)
		}
		if closes > 3 && c.Bound > 0.15 {
			t.Errorf("close %d: got bound %v, want 0.15 at most: an early close was published before, although for a little later", closes, c.Bound)
		}
	}
	for w, admitted := range l.admitted {
		if w > frameNow/second+1 && float64(admitted-1000)/1000 > l.changes[len(l.changes)-1].Bound {
			over++
		}
	}
	if s := l.fold.Stats(); closes < 50 || s.Bounds.Count != uint64(closes) {
		t.Errorf("got %d bounds of %d closes", s.Bounds.Count, closes)
	}
	if over > 0 {
		t.Errorf("got %d of %d windows over the bound, want none of so few", over, closes)
	}
}

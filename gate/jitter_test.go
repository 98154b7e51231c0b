package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

func TestReopeningIsOnlyLater(t *testing.T) {
	for _, p := range []struct {
		length, jitter, highest time.Duration
		early                   bool
	}{
		{length: 10 * time.Second, jitter: DefaultMaxJitter, highest: time.Second},
		{length: time.Minute, jitter: DefaultMaxJitter, highest: 6 * time.Second},
		{length: time.Hour, jitter: DefaultMaxJitter, highest: 10 * time.Second},
		{length: time.Hour, jitter: time.Second, highest: time.Second},
		{length: time.Hour, jitter: 0},
		{length: 10*time.Second - 1, jitter: DefaultMaxJitter}, // short closures are not delayed
		{length: time.Second, jitter: DefaultMaxJitter},
		{length: 9, jitter: DefaultMaxJitter},
		{length: 10 * time.Second, jitter: DefaultMaxJitter, early: true}, // nor are early ones
		{length: time.Hour, jitter: DefaultMaxJitter, early: true},
	} {
		var lowest, maxJitter time.Duration = time.Hour, 0
		for i := range 2000 {
			span := schemas.Span{CloseAt: 7, Until: 7 + int64(p.length), Early: p.early}
			late := time.Duration(reopens(schemas.Caller{Kind: "key", ID: fmt.Sprint(i)}, span, p.jitter) - span.Until)
			lowest, maxJitter = min(lowest, late), max(maxJitter, late)
		}
		if lowest < 0 || maxJitter > p.highest || p.highest > 0 && (lowest > p.highest/100 || maxJitter < p.highest/100*99) {
			t.Errorf("%+v: got %v to %v late, want 0 to %v", p, lowest, maxJitter, p.highest)
		}
	}
}

// TestAnOpeningIsNotDelayed: a decision that ends when it begins opens its caller at once, whoever it is and however long it was closed.
func TestAnOpeningIsNotDelayed(t *testing.T) {
	s := New(Options{Logger: quiet()})
	for i := range 200 {
		caller := fmt.Sprint("key:", i)
		closed := closing("r", caller, 0, 3600)
		s.ApplyAt(at(1), []schemas.Decision{closed})
		if !check(t, s, 10, caller).Closed {
			t.Fatalf("%s: got open, want closed", caller)
		}
		opened := closed
		opened.Seq, opened.Until = closed.Seq+1, closed.CloseAt
		s.ApplyAt(at(10), []schemas.Decision{opened})
		if check(t, s, 10, caller).Closed {
			t.Errorf("%s: got closed, want open at the moment of the opening", caller)
		}
	}
}

// TestAClosureBeforeANextOneReopensOnTime: the next one was predicted for a caller that goes on from there. If its gate opened
// late, the next closure would be over before, and the caller would get as much as without it.
func TestAClosureBeforeANextOneReopensOnTime(t *testing.T) {
	s := New(Options{Logger: quiet()})
	for i := range 200 {
		caller := fmt.Sprint("key:", i)
		closed := closing("r", caller, 0, 60)
		s.ApplyAt(at(1), []schemas.Decision{closed})
		closed.Seq++
		closed.Next = schemas.Span{CloseAt: closed.Until + int64(time.Second), Until: closed.Until + int64(2*time.Second), Early: true}
		s.ApplyAt(at(59), []schemas.Decision{closed})
		for second, want := range map[float64]bool{59.5: true, 60.5: false, 61.5: true, 62.5: false} {
			if got := check(t, s, second, caller).Closed; got != want {
				t.Fatalf("%s at second %v: got closed %t, want %t", caller, second, got, want)
			}
		}
	}
}

func TestManyThatReopenTogetherAreSpread(t *testing.T) {
	const callers, span, slot = 100_000, 10 * time.Second, 100 * time.Millisecond
	var reopened [span / slot]int
	for i := range callers {
		c, span := schemas.Caller{Kind: "ip", ID: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}, schemas.Span{Until: int64(time.Hour)}
		reopened[(reopens(c, span, DefaultMaxJitter)-span.Until)/int64(slot)]++
	}
	for i, n := range reopened {
		if n > 2*callers/len(reopened) {
			t.Errorf("slot %d: got %d of %d callers, want at most twice the mean", i, n, callers)
		}
	}
}

func TestServersAgreeOnWhenAGateReopens(t *testing.T) {
	d := closing("r", "key:abc", 0, 100)
	a, b := New(Options{Logger: quiet()}), New(Options{Logger: quiet()})
	for _, s := range []*Set{a, b, a, b} { // twice: a repeat must not move it
		s.ApplyAt(at(1), []schemas.Decision{d})
		s.ApplyAt(at(5), []schemas.Decision{d})
	}
	va, vb := check(t, a, 50, "key:abc"), check(t, b, 50, "key:abc")
	if !va.Until.Equal(vb.Until) || va.Until.Before(at(100)) || va.Until.After(at(110)) {
		t.Errorf("got until %v and %v, want the same within 10 s after %v", va.Until, vb.Until, at(100))
	}
	if va.RetryAfter != va.Until.Sub(at(50)) {
		t.Errorf("got retry after %v, want the jittered %v", va.RetryAfter, va.Until.Sub(at(50)))
	}
	if v := a.CheckAt(callersOf(a, "key", "abc"), va.Until.Add(-1)); !v.Closed {
		t.Error("got open before the time that Retry-After says")
	}
	if v := a.CheckAt(callersOf(a, "key", "abc"), va.Until); v.Closed {
		t.Error("got closed at the time that Retry-After says")
	}
}

func callersOf(s *Set, kind string, ids ...string) *Callers {
	var c Callers
	for _, id := range ids {
		c.Add(s.Gate(kind), id)
	}
	return &c
}

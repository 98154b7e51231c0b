package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

func TestReopeningIsOnlyLater(t *testing.T) {
	for _, p := range []struct {
		length, jitter, most time.Duration
	}{
		{time.Second, DefaultMaxJitter, 100 * time.Millisecond},
		{time.Minute, DefaultMaxJitter, 6 * time.Second},
		{time.Hour, DefaultMaxJitter, 10 * time.Second},
		{time.Hour, time.Second, time.Second},
		{time.Hour, 0, 0},
		{9, DefaultMaxJitter, 0},
	} {
		var least, most time.Duration = time.Hour, 0
		for i := range 2000 {
			d := schemas.Decision{Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint(i)}, CloseAt: 7, Until: 7 + int64(p.length)}
			late := time.Duration(reopens(&d, p.jitter) - d.Until)
			least, most = min(least, late), max(most, late)
		}
		if least < 0 || most > p.most || p.most > 0 && (least > p.most/100 || most < p.most/100*99) {
			t.Errorf("closures of %v reopen %v to %v late, want 0 to %v", p.length, least, most, p.most)
		}
	}
}

func TestManyThatReopenTogetherAreSpread(t *testing.T) {
	const callers, span, slot = 100_000, 10 * time.Second, 100 * time.Millisecond
	var reopened [span / slot]int
	for i := range callers {
		d := schemas.Decision{Caller: schemas.Caller{Kind: "ip", ID: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}, Until: int64(time.Hour)}
		reopened[(reopens(&d, DefaultMaxJitter)-d.Until)/int64(slot)]++
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

package notify

import (
	"container/list"
	"math/rand/v2"
	"testing"
	"time"
)

func TestALedgerIsAtItsOldestOpenEvent(t *testing.T) {
	l := &ledger{next: 5}
	want := func(offset int64) {
		t.Helper()
		if got := l.done(); got != offset {
			t.Fatalf("got %d, want %d", got, offset)
		}
	}
	want(5)
	at := time.Unix(1, 0)
	first, second := l.begin(7, at), l.begin(9, at.Add(time.Second))
	l.passed(12)
	want(7)
	l.end(second)
	want(7)
	if p, ok := l.oldest(); !ok || !p.written.Equal(at) {
		t.Errorf("got %v, want what was written first", p)
	}
	l.end(first)
	want(12)
	l.passed(3)
	want(12)
}

// TestALedgerIsNeverBehindAnOpenEvent, in whatever order events end.
func TestALedgerIsNeverBehindAnOpenEvent(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	l := &ledger{}
	open := map[int64]*list.Element{}
	next := int64(0)
	for range 5000 {
		if rnd.IntN(2) == 0 {
			next += rnd.Int64N(3)
			open[next] = l.begin(next, time.Unix(next, 0))
			next++
		} else {
			for offset, e := range open {
				l.end(e)
				delete(open, offset)
				break
			}
		}
		want := next
		for offset := range open {
			want = min(want, offset)
		}
		if got := l.done(); got != want {
			t.Fatalf("seed %d: got %d, want %d", seed, got, want)
		}
	}
}

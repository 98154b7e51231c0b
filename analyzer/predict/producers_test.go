package predict

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
)

const (
	millisecond = int64(time.Millisecond)
	second      = int64(time.Second)
)

// TestProducersAreWaitedFor: what servers have sent is complete until the newest entry of the one that is furthest behind, unless that one is silent.
func TestProducersAreWaitedFor(t *testing.T) {
	var h producers
	const at = 1000 * second
	note := func(id int, newest, now int64) {
		h.note(foldtest.Producer(id), at+newest*millisecond, at+now*millisecond)
	}
	live := func(now int64) (until, gates int64) {
		h.at = 0
		until, gates = h.complete(at+now*millisecond, 200*millisecond)
		return (until - at) / millisecond, gates
	}
	note(1, 0, 0)
	note(2, -60, 5) // a clock behind
	note(1, 90, 90)
	for _, want := range []struct{ now, until, gates int64 }{{90, -70, 2}, {205, -70, 2}, {206, 80, 2}, {500, 490, 2}, {10_005, 9995, 2}, {10_006, 9996, 1}, {10_091, 10_081, 0}} {
		if until, gates := live(want.now); until != want.until || gates != want.gates {
			t.Errorf("at %d ms: got until %d of %d gates, want %d of %d", want.now, until, gates, want.until, want.gates)
		}
	}
	for i := range 3 * maxActive {
		h.note(foldtest.Producer(i), at, at)
	}
	if len(h.byID) > maxActive {
		t.Errorf("got %d producers, want at most %d", len(h.byID), maxActive)
	}
	note(maxActive+7, 20_000, 20_000)
	if _, gates := live(20_000); gates != 1 {
		t.Errorf("got %d gates after those were silent, want 1", gates)
	}
}

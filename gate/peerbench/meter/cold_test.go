package meter

import (
	"testing"
	"time"
)

func TestColdTimesOneCallOfEach(t *testing.T) {
	w := NewWalker(1 << 12)
	order := 0
	step := func(want int) {
		if order != want {
			t.Fatalf("got step %d, want %d: before and once come in turn", order, want)
		}
		order++
	}
	quick := w.Cold(100, func(i int) { step(2 * i) }, func(i int) { step(2*i + 1) })
	if order != 200 {
		t.Errorf("got %d calls, want 200", order)
	}
	slow := w.Cold(100, func(int) { spin(0) }, func(int) { spin(0) })
	if slow < 20_000 || quick > slow/2 {
		t.Errorf("got %v ns for nothing and %v for 20 µs", quick, slow)
	}
	if slow > float64(10*time.Millisecond) {
		t.Errorf("got %v ns for 20 µs", slow)
	}
}

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

func TestWalkTouchesEachLine(t *testing.T) {
	w := NewWalker(1024)
	w.Walk()
	w.Walk()
	for i := 0; i < len(w.memory); i += 8 {
		if w.memory[i] != 2 {
			t.Errorf("word %d: got %d, want 2 walks", i, w.memory[i])
		}
	}
	if w.sum != 16*(1+2) {
		t.Errorf("got sum %d, want 48", w.sum)
	}
}

func TestProcessorTimeAdvancesWithWork(t *testing.T) {
	before := ProcessorTime()
	for start := time.Now(); ProcessorTime()-before < 5*time.Millisecond; {
		spin(0)
		if time.Since(start) > time.Minute {
			t.Fatal("got less than 5 ms of processor time in a minute of work")
		}
	}
}

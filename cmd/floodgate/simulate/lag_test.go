package simulate

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestLagOfIsTheMean: the ways of a lag add up to it, and none is negative.
func TestLagOfIsTheMean(t *testing.T) {
	for _, mean := range []time.Duration{0, 1, 7, time.Microsecond, 5 * ms, 50 * ms, 200 * ms, 2 * time.Second, time.Hour} {
		l := LagOf(mean)
		if got := l.Mean(); got < mean-1 || got > mean {
			t.Errorf("LagOf(%v): got a mean of %v", mean, got)
		}
		if err := l.check(); err != nil {
			t.Errorf("LagOf(%v): %v", mean, err)
		}
		if l.Flush > maxFlush || l.Publish > maxPublish {
			t.Errorf("LagOf(%v): got a flush of %v and a produce of %v", mean, l.Flush, l.Publish)
		}
	}
}

// TestLagIsRefusedOutOfBounds, before anything runs.
func TestLagIsRefusedOutOfBounds(t *testing.T) {
	for want, l := range map[string]Lag{
		"got a way of -1ns":         {ToLog: -1},
		"got a way of 1h0m0.000000": {ToGate: time.Hour + 1},
		"got a way of 2h":           {Flush: 2 * time.Hour},
		"got a spread of 1.5":       {Spread: 1.5},
		"got a spread of -1":        {Spread: -1},
	} {
		if err := l.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", l, err, want)
		}
	}
}

func waysOf(l Lag) *ways { return &ways{Lag: l, random: rand.New(rand.NewPCG(1, 1))} }

// TestWaysTakeTheirMean: give or take the spread, and never more.
func TestWaysTakeTheirMean(t *testing.T) {
	w := waysOf(Lag{ToLog: 100 * ms, Spread: 0.1})
	const n = 10_000
	sum := 0.0
	for range n {
		d := time.Duration(w.take(w.ToLog, 0))
		if d < 90*ms || d > 110*ms {
			t.Fatalf("got %v, want 90 to 110 ms", d)
		}
		sum += float64(d)
	}
	if mean := sum / n; math.Abs(mean/float64(100*ms)-1) > 0.005 {
		t.Errorf("got a mean of %v, want 100 ms", time.Duration(mean))
	}
}

// TestJumpsAndStops: they hold from their begin to their end, and at no other time.
func TestJumpsAndStops(t *testing.T) {
	l := LagOf(50 * ms)
	l.Spread = 0
	l.Jumps = []Jump{{From: 10 * time.Second, For: 5 * time.Second, Lag: 2 * time.Second}}
	l.Stops = []Stop{{From: 20 * time.Second, For: time.Second}}
	w := waysOf(l)
	for at, factor := range map[time.Duration]float64{0: 1, 10*time.Second - 1: 1, 10 * time.Second: 40, 15*time.Second - 1: 40, 15 * time.Second: 1} {
		got, want := float64(w.take(l.ToGate, int64(at))), factor*float64(l.ToGate)
		if math.Abs(got-want) > 1e-6*want {
			t.Errorf("at %v: got %v, want %v", at, time.Duration(got), time.Duration(want))
		}
	}
	for at, want := range map[time.Duration]time.Duration{
		20*time.Second - 1: 20*time.Second - 1, 20 * time.Second: 21 * time.Second, 21*time.Second - 1: 21 * time.Second, 21 * time.Second: 21 * time.Second,
	} {
		if got := time.Duration(w.running(int64(at))); got != want {
			t.Errorf("running(%v): got %v, want %v", at, got, want)
		}
	}
}

// TestNothingOvertakesOnALane, however the times fall.
func TestNothingOvertakesOnALane(t *testing.T) {
	var l orderedWay
	last := int64(0)
	for _, at := range []int64{5, 3, 8, 8, 1, 9} {
		got := l.arrive(at)
		if got < at || got < last {
			t.Errorf("got an arrival at %d of what would come at %d, after one at %d", got, at, last)
		}
		last = got
	}
	if last != 9 {
		t.Errorf("got the last at %d, want 9: an ordered way delays no more than it must", last)
	}
}

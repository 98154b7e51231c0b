package policy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/509da70d/floodgate/analyzer/integer"
	"pgregory.net/rapid"
)

const ms = int64(1_000_000)

// stream feeds a pace with requests at a rate a second until a time, one by one in order, and returns the time.
func stream(p *Pace, from, until int64, rate float64, lag int64, gap func() float64) int64 {
	at := from
	for {
		next := at + int64(gap()/rate*1e9)
		if next >= until {
			p.Advance(until, lag)
			return until
		}
		at = next
		p.Add(at, 0, 1, lag)
	}
}

func evenly() float64 { return 1 }

// TestPaceFollowsDemand tells what a caller does, and what the pace says then, in requests a second.
func TestPaceFollowsDemand(t *testing.T) {
	const lag = 200 * ms
	for name, test := range map[string]struct {
		story    func(p *Pace)
		min, max float64
	}{
		"nothing":         {func(*Pace) {}, 0, 0},
		"a steady stream": {func(p *Pace) { stream(p, 0, 5000*ms, 2000, lag, evenly) }, 1990, 2010},
		"a slow one":      {func(p *Pace) { stream(p, 0, 20_000*ms, 3, lag, evenly) }, 1, 6},
		"three requests are no rise": {func(p *Pace) {
			at := stream(p, 0, 20_000*ms, 1, lag, evenly)
			p.Add(at, 0, 3, lag)
			p.Advance(at+10*ms, lag)
		}, 0, 10},
		"five requests are one": {func(p *Pace) {
			at := stream(p, 0, 20_000*ms, 1, lag, evenly)
			p.Add(at, 0, 5, lag)
			p.Advance(at+10*ms, lag)
		}, 30, 60},
		"in every other tick":     {func(p *Pace) { stream(p, 0, 5000*ms, 50, lag, evenly) }, 48, 53},
		"one that has just begun": {func(p *Pace) { stream(p, 0, 50*ms, 2000, lag, evenly) }, 1900, 2100},
		"one before 1970":         {func(p *Pace) { stream(p, -5000*ms, -3000*ms, 2000, lag, evenly) }, 1990, 2010},
		"a jump is seen at once":  {func(p *Pace) { stream(p, stream(p, 0, 3000*ms, 100, lag, evenly), 3150*ms, 2000, lag, evenly) }, 1000, 2000},
		"a stop is seen at once":  {func(p *Pace) { stream(p, 0, 3000*ms, 2000, lag, evenly); p.Advance(3300*ms, lag) }, 0, 200},
		"two more are no jump": {func(p *Pace) {
			stream(p, 0, 9000*ms, 5, lag, evenly)
			p.Add(9001*ms, 0, 2, lag)
			p.Advance(9020*ms, lag)
		}, 4, 9},
		"a long silence":            {func(p *Pace) { stream(p, 0, 3000*ms, 2000, lag, evenly); p.Advance(math.MaxInt64/2, lag) }, 0, 0},
		"log time never goes back":  {func(p *Pace) { stream(p, 0, 5000*ms, 2000, lag, evenly); p.Advance(-5000*ms, lag) }, 1990, 2010},
		"the lag changes meanwhile": {func(p *Pace) { stream(p, stream(p, 0, 3000*ms, 500, 5*ms, evenly), 5000*ms, 500, 900*ms, evenly) }, 490, 510},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pace
			test.story(&p)
			if got := float64(p.Rate()) / 1000; got < test.min || got > test.max {
				t.Errorf("got %v a second, want %v to %v", got, test.min, test.max)
			}
		})
	}
}

// TestAJumpIsSeenInTheTickThatIsNotOver: what Jump and Rate say a moment after a caller begins to ask for 1 000 a second.
func TestAJumpIsSeenInTheTickThatIsNotOver(t *testing.T) {
	for name, test := range map[string]struct {
		before    float64
		lag, at   int64 // ms after the jump
		jump      float64
		rate      float64 // both at least, in requests a second
		unchanged bool    // Jump says what Rate says
	}{
		"50 ms of lag, after a tick":              {10, 50, 14, 600, 300, false},
		"50 ms of lag, in the first tick":         {10, 50, 8, 400, 5, false},
		"200 ms of lag":                           {10, 200, 25, 300, 150, false},
		"a few requests are no jump":              {10, 50, 3, 5, 5, true},
		"half as much again may be chance":        {650, 50, 14, 600, 600, true},
		"when it is measured well, both agree":    {10, 50, 150, 900, 900, false},
		"a lag that is shorter than a tick":       {10, 4, 14, 600, 500, true},
		"less than before is no jump":             {3000, 50, 14, 1500, 1500, true},
		"at once, nothing is known of the caller": {0, 50, 0, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pace
			at := 5000 * ms
			if test.before > 0 {
				at = stream(&p, 0, at, test.before, test.lag*ms, evenly)
			}
			at = stream(&p, at, at+test.at*ms, 1000, test.lag*ms, evenly)
			jump, rate := float64(p.Jump(at, test.lag*ms))/1000, float64(p.Rate())/1000
			if jump < test.jump || rate < test.rate || jump < rate || (jump == rate) != test.unchanged && test.at < 100 {
				t.Errorf("got a jump to %v and a rate of %v, want at least %v and %v, and the same: %v", jump, rate, test.jump, test.rate, test.unchanged)
			}
			if most := max(test.before, 1000) * 1.2; jump > most {
				t.Errorf("got a jump to %v, want at most %v: no more has come", jump, most)
			}
		})
	}
}

// TestARandomStreamNeverJumps: in a thousand seconds, by its pace at each millisecond.
func TestARandomStreamNeverJumps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, lag := range []int64{5 * ms, 50 * ms, 200 * ms} {
		var p Pace
		for at := int64(0); at < 300_000*ms; {
			at = stream(&p, at, at+ms, 1000, lag, rng.ExpFloat64)
			if jump, rate := p.Jump(at, lag), p.Rate(); jump != rate && at > 1000*ms {
				t.Fatalf("lag %d ms, at %d ms: got a jump to %d, want the rate of %d", lag/ms, at/ms, jump, rate)
			}
		}
	}
}

// TestPaceOfARandomStream: it is seldom far from the truth, and right in the mean.
func TestPaceOfARandomStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const lag, rate = 200 * ms, 1000.0
	var p Pace
	var sum float64
	far, n, at := 0, 0, int64(0)
	for at < 200_000*ms {
		at = stream(&p, at, at+25*ms, rate, lag, rng.ExpFloat64)
		if at < 5000*ms {
			continue
		}
		got := float64(p.Rate()) / 1000
		sum += got
		if n++; math.Abs(got-rate) > 0.15*rate {
			far++
		}
	}
	if mean := sum / float64(n); math.Abs(mean-rate) > 0.02*rate || far > n/50 {
		t.Errorf("got a mean of %v, and %d of %d off by more than 15 %%, want %v and few", mean, far, n, rate)
	}
}

// TestAge: the mean is by weight, and one entry from a queue that stood still does not make it years.
func TestAge(t *testing.T) {
	var p Pace
	if got := p.Age(); got != 0 {
		t.Errorf("got %d of nothing, want 0", got)
	}
	for n := range int64(1000) {
		p.Add(n*ms, 0, 3, 100*ms)
		p.Add(n*ms, 80*ms, 1, 100*ms) // of a server whose clock is behind
	}
	if got := p.Age(); got < 19*ms || got > 21*ms {
		t.Errorf("got %d ns, want 20 ms", got)
	}
	p.Add(1000*ms, math.MaxInt64, 1, 100*ms)
	if got := p.Age(); got > 60*ms {
		t.Errorf("got %d ns after one very old entry, want little more than 20 ms", got)
	}
	p.Add(1000*ms, -5, 1, 100*ms)
}

// TestPaceStaysInItsBounds: whatever comes in whatever order, under whatever lags, nothing overflows.
func TestPaceStaysInItsBounds(t *testing.T) {
	times := rapid.OneOf(rapid.Int64Range(-1000*ms, 1000*ms), rapid.Int64())
	numbers := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, math.MaxInt64))
	rapid.Check(t, func(t *rapid.T) {
		var p Pace
		for range rapid.IntRange(1, 30).Draw(t, "entries") {
			now, lag := times.Draw(t, "now"), min(numbers.Draw(t, "lag"), 3600_000*ms)
			p.Add(now, times.Draw(t, "age"), numbers.Draw(t, "weight"), lag)
			if p.Rate() < 0 || p.Jump(now, lag) < p.Rate() || p.Age() < 0 || p.Age() > maxAge*1000 || p.fast.weight < 0 || p.slow.ticks < 0 || p.aged < 0 {
				t.Fatalf("got %+v", p)
			}
		}
	})
}

func TestNothingComesInNoTimeOrAtNoRate(t *testing.T) {
	for _, test := range []struct{ rate, length, want int64 }{
		{1000, int64(sec), 1000}, {1, int64(sec), 1}, {0, 1 << 62, 0}, {-5, int64(sec), 0}, {1 << 62, 0, 0}, {1000, -5, 0},
	} {
		if got := weightIn(test.rate, test.length); got != test.want {
			t.Errorf("at %d thousandths a second in %d ns: got %d, want %d", test.rate, test.length, got, test.want)
		}
	}
}

func TestMulDivAndRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(0, 1<<31).Draw(t, "a"), rapid.Int64Range(0, 1<<31).Draw(t, "b")
		c := rapid.Int64Range(1, math.MaxInt64).Draw(t, "c")
		if got := integer.MulDiv(a, b, c); got != a*b/c {
			t.Fatalf("got %d·%d/%d = %d, want %d", a, b, c, got, a*b/c)
		}
		if r := integer.Root(a); r*r > a || (r+1)*(r+1) <= a {
			t.Fatalf("got a root of %d of %d", r, a)
		}
		if r, want := float64(rootOfProduct(a, c)), math.Sqrt(float64(a))*math.Sqrt(float64(c)); math.Abs(r-want) > 2+want/1000+math.Sqrt(float64(a))+math.Sqrt(float64(c)) {
			t.Fatalf("got a root of %v of %d·%d, want %v", r, a, c, want)
		}
	})
	for _, test := range []struct{ a, b, c int64 }{
		{math.MaxInt64, math.MaxInt64, 2}, {1 << 62, 4, 1}, {1 << 62, 12, 3}, {1 << 62, 2, 1}, // the quotient has 127, 65, 64 and 63 bits
	} {
		if got := integer.MulDiv(test.a, test.b, test.c); got != math.MaxInt64 {
			t.Errorf("got %d·%d/%d = %d, want the largest", test.a, test.b, test.c, got)
		}
	}
}

package hold

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// numbersOf returns the varints in b.
func numbersOf(b []byte) (numbers []int64) {
	for len(b) > 0 {
		number, n := binary.Varint(b)
		numbers, b = append(numbers, number), b[n:]
	}
	return numbers
}

// TestTheEstimateIsTheFirstGuess, until as many responses as a quarter of the memory outweigh it.
func TestTheEstimateIsTheFirstGuess(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	if got := s.Room(terms, limit, 0, start, start); got.Mean != 1000 || got.Left != limit-500 {
		t.Errorf("got %+v, want a mean of the estimate, and all but half of one left", got)
	}
	for n, want := range map[int][2]int64{1: {1000, 1000}, 32: {1000, 1000}, 96: {1700, 2000}, 1000: {1999, 2000}} {
		s := New(terms)
		for range n {
			follow(s, terms, response(start, start+second, 1, 2000))
		}
		if n < 33 {
			want[1] = 2000
		}
		if got := s.Room(terms, limit, 0, start, start).Mean; got < want[0] || got > want[1] {
			t.Errorf("after %d responses of 2000: got a mean of %d, want %d to %d", n, got, want[0], want[1])
		}
	}
}

// TestResponsesThatRanEquallyLongSayNothingOfAge: after two of them, a request that runs for long holds what any other holds.
func TestResponsesThatRanEquallyLongSayNothingOfAge(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	s.Arrive(terms, &schemas.Entry{Time: start, Count: 3})
	for range 2 {
		follow(s, terms, response(start, start+second, 1, 2000))
	}
	if got := s.Room(terms, limit, 4000, start, start+25*second); got.Held != got.Mean || s.Learned.Duration() != second {
		t.Errorf("got %+v of %d ns, want a request that holds the mean, of a second", got, s.Learned.Duration())
	}
}

// TestDearerRequestsAreSeenSoon, and cheaper ones late: the larger of two means counts.
func TestDearerRequestsAreSeenSoon(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	mean := func() int64 { return s.Room(terms, limit, 0, start, start).Mean }
	learn := func(n int, cost int64) {
		for range n {
			follow(s, terms, response(start, start+second, 1, cost))
		}
	}
	learn(1000, 1000)
	learn(32, 5000)
	if got := mean(); got < 3000 {
		t.Errorf("after 32 responses of 5000: got %d, want more than half of the way from 1000", got)
	}
	learn(1000, 5000)
	learn(32, 1000)
	if got := mean(); got < 3800 {
		t.Errorf("after 32 responses of 1000: got %d, want less than a third of the way from 5000", got)
	}
}

// TestFreeRequestsTeachNothing: a caller may send any number of requests that cost nothing, such as those for a model that does not exist.
func TestFreeRequestsTeachNothing(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	for range 1000 {
		follow(s, terms, arrival(start, 1))
		follow(s, terms, response(start, start+30*second, 1, 0))
	}
	follow(s, terms, arrival(start+31*second, 20))
	if got := s.Room(terms, limit, 0, start, start+31*second); got.InFlight != 20 || got.Held != 20_000 {
		t.Errorf("got %+v, want 20 in flight that hold 20000", got)
	}
}

// TestTheMemoryIsAsManyRequestsAsFitTheLimit, 128 to 4096.
func TestTheMemoryIsAsManyRequestsAsFitTheLimit(t *testing.T) {
	for limit, want := range map[int64]int64{1: 128, 100_000: 128, 1_000_000: 1000, math.MaxInt64: 4096} {
		l := Learned{slow: 1000 << fractionBits}
		if got := l.memory(limit); got != want {
			t.Errorf("limit %d: got %d, want %d", limit, got, want)
		}
	}
}

// TestRequestsThatRunLongerAreDearer: where a cost grows with the duration, a request that has run for long holds more.
func TestRequestsThatRunLongerAreDearer(t *testing.T) {
	for name, test := range map[string]struct {
		cost     func(seconds int64) int64
		min, max int64 // of what one request holds after 10 s
	}{
		"with the duration":    {func(s int64) int64 { return 100 * s }, 1100, 1200},
		"whatever the time":    {func(int64) int64 { return 500 }, 490, 510},
		"less with more time":  {func(s int64) int64 { return 1000 - 100*s }, 490, 560},
		"steeper than allowed": {func(s int64) int64 { return max(1, 10_000*(s-8)) }, 5000, 6500}, // at most twice the mean for each mean duration,
	} {
		terms := perMinute()
		terms.Span, terms.Cohorts = 3*second, 21
		s := New(terms)
		for n := range int64(2000) {
			seconds := 1 + n%9
			follow(s, terms, response(start, start+seconds*second, 1, test.cost(seconds)))
		}
		s.cohorts = nil
		follow(s, terms, arrival(start+10*second, 1))
		young, old := s.Room(terms, limit, 0, start, start+10*second).Held, s.Room(terms, limit, 0, start, start+20*second).Held
		if old < test.min || old > test.max || young > old {
			t.Errorf("%s: got %d held at once, and %d after 10 s, want %d to %d", name, young, old, test.min, test.max)
		}
	}
}

// TestTheMarginGrowsWithTheRootOfWhatIsInFlight, and with the margin of the rule.
func TestTheMarginGrowsWithTheRootOfWhatIsInFlight(t *testing.T) {
	terms := perMinute()
	margin := func(n uint32, hundredths int64) int64 {
		with := *terms
		with.Margin = hundredths
		s := New(&with)
		follow(s, &with, arrival(start, n))
		return s.Room(&with, limit, 0, start, start).Margin
	}
	// Before the first response, a cost is 750 from the estimate of 1000 on average.
	for _, test := range []struct {
		n                uint32
		hundredths, want int64
	}{{0, 200, 0}, {1, 200, 2250}, {4, 200, 4500}, {100, 200, 22_500}, {100, 100, 11_250}, {100, 0, 0}, {100, 50, 5625}, {10_000_000, 200, 7_115_124}} {
		if got := margin(test.n, test.hundredths); got != test.want && (got < test.want*999/1000 || got > test.want*1001/1000) {
			t.Errorf("%d in flight, margin %d: got %d, want %d", test.n, test.hundredths, got, test.want)
		}
	}
}

// TestDeclaredCosts: what a server declares is scaled by what such declarations were worth.
func TestDeclaredCosts(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		e := response(start, start+second, 1, 500+rng.Int64N(1000))
		e.Declared = 4 * e.Cost
		follow(s, terms, e)
	}
	s.cohorts = nil
	e := arrival(start, 1)
	e.Declared = 8000
	follow(s, terms, e)
	got := s.Room(terms, limit, 0, start, start)
	if got.Held < 1900 || got.Held > 2100 || got.Margin > 300 {
		t.Errorf("got %+v, want 8000 declared to hold about 2000, with little margin", got)
	}
}

func TestBadStates(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	follow(s, terms, arrival(start, 3))
	follow(s, terms, response(start, start+second, 1, 800))
	good := numbersOf(s.AppendTo(nil))
	if _, rest, err := Read(append(good, 7)); err != nil || len(rest) != 1 || rest[0] != 7 {
		t.Fatalf("got %v left, %v", rest, err)
	}
	for name, change := range map[string]func(n []int64) []int64{
		"nothing":               func([]int64) []int64 { return nil },
		"a number less":         func(n []int64) []int64 { return n[:len(n)-1] },
		"no length":             func(n []int64) []int64 { n[1] = 0; return n },
		"a negative length":     func(n []int64) []int64 { n[1] = -minute; return n },
		"a length of years":     func(n []int64) []int64 { n[1] = 2 * int64(schemas.MaxClosure); return n },
		"no cohort kept":        func(n []int64) []int64 { n[2] = 0; return n },
		"too many cohorts":      func(n []int64) []int64 { n[2] = maxCohorts + 1; return n },
		"negative responses":    func(n []int64) []int64 { n[3] = -1; return n },
		"means of nothing":      func(n []int64) []int64 { n[3] = 0; return n },
		"a negative mean":       func(n []int64) []int64 { n[4] = -1; return n },
		"a huge mean":           func(n []int64) []int64 { n[5] = math.MaxInt64; return n },
		"nothing expected":      func(n []int64) []int64 { n[6] = 0; return n },
		"a negative duration":   func(n []int64) []int64 { n[7] = -1; return n },
		"a negative distance":   func(n []int64) []int64 { n[8] = -1; return n },
		"a huge product":        func(n []int64) []int64 { n[9] = math.MinInt64; return n },
		"a negative square":     func(n []int64) []int64 { n[10] = -1; return n },
		"a cohort out of time":  func(n []int64) []int64 { n[11] = math.MaxInt64/minute + 1; return n },
		"negative cohorts":      func(n []int64) []int64 { n[12] = -1; return n },
		"more cohorts than fit": func(n []int64) []int64 { n[12] = 3; return append(n, 1, 1, 1, 1, 1, 1) },
		"an empty last cohort":  func(n []int64) []int64 { n[13], n[14], n[15] = 0, 0, 0; return n },
	} {
		if got, _, err := Read(change(append([]int64(nil), good...))); !errors.Is(err, ErrState) {
			t.Errorf("%s: got %+v, %v, want %v", name, got, err, ErrState)
		}
	}
}

// TestChangedTerms: with another estimate what is in flight stays, at that estimate, and what was learned is forgotten. With cohorts of another
// length nothing stays.
func TestChangedTerms(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	follow(s, terms, arrival(start, 3))
	for range 100 {
		follow(s, terms, response(start-minute, start, 1, 7000))
	}
	if same, changed := Under(terms, s); same != s || changed {
		t.Errorf("the same terms: got %+v, %v", same, changed)
	}
	dearer := *terms
	dearer.Estimate = 2000
	dearer.Identify()
	under, changed := Under(&dearer, s)
	if got := under.Room(&dearer, limit, 0, start, start); !changed || got.InFlight != 3 || got.Held != 6000 || under.Learned != (Learned{}) {
		t.Errorf("another estimate: got %+v, %+v, want 3 requests of 2000", got, under.Learned)
	}
	longer := dearer
	longer.Span = 2 * minute
	if under, changed := Under(&longer, s); under != nil || !changed {
		t.Errorf("longer cohorts: got %+v, want nothing", under)
	}
	if under, changed := Under(nil, s); under != nil || !changed {
		t.Errorf("no terms: got %+v, want nothing", under)
	}
	if under, changed := Under(nil, nil); under != nil || changed {
		t.Errorf("nothing under no terms: got %+v, %v", under, changed)
	}
}

// TestAnIdleCallerIsForgotten: a fold may drop a row on which nothing depends, or not, so both must go on alike.
func TestAnIdleCallerIsForgotten(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	for range 100 {
		follow(s, terms, response(start, start+second, 1, 7000))
	}
	at := s.Expiry()
	if at != start+2*minute {
		t.Errorf("got an expiry of %d, want two windows after %d", at, start)
	}
	fresh := New(terms)
	for _, x := range []*State{s, fresh} {
		follow(x, terms, response(start+second, at, 1, 500))
	}
	if !reflect.DeepEqual(s.Learned, fresh.Learned) || !reflect.DeepEqual(s.AppendTo(nil), fresh.AppendTo(nil)) {
		t.Errorf("got %+v, want %+v as if nothing had been", s, fresh)
	}
}

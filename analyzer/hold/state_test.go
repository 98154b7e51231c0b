package hold

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	start  = 1_790_000_040 * second // a full minute
	limit  = 100_000
)

// perMinute returns terms of fixed windows of a minute.
func perMinute() *Terms {
	t := &Terms{
		Estimate: 1000, Margin: 200, Span: minute, Cohorts: 2,
		Resources: []pattern.Glob{pattern.NewGlob("POST /v1/big*"), pattern.NewGlob("/v1/*")}, Estimates: []int64{4000, 500},
	}
	t.Identify()
	return t
}

func arrival(at int64, count uint32) *schemas.Entry {
	return &schemas.Entry{Time: at, Kind: "key", ID: "a", Resource: "POST /", Count: count}
}

// response returns the responses of requests that have all arrived at one time.
func response(arrived, ended int64, count uint32, cost int64) *schemas.Entry {
	return &schemas.Entry{
		Time: ended, Kind: "key", ID: "a", Resource: "POST /", Count: count, Response: true, Cost: cost,
		Arrived: int64(count) * schemas.Tick(arrived),
	}
}

// follow adds an entry as a fold does.
func follow(s *State, t *Terms, e *schemas.Entry) {
	if !e.Response {
		s.Arrive(t, e)
		return
	}
	if at, ok := ArrivedAt(e); ok {
		s.End(t, e, at, limit)
	}
}

func room(s *State, t *Terms, counted, now int64) Room {
	return s.Room(t, limit, counted, now/minute*minute, now)
}

func TestARequestHoldsUntilItEnds(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	for _, step := range []struct {
		name     string
		entry    *schemas.Entry
		at       int64
		inFlight int64
		held     int64
	}{
		{"nothing", nil, start, 0, 0},
		{"three arrive", arrival(start+second, 3), start + second, 3, 3000},
		{"a big one", &schemas.Entry{Time: start + 2*second, Resource: "POST /v1/bigger", Count: 1}, start + 2*second, 4, 7000},
		{"one of another resource", &schemas.Entry{Time: start + 2*second, Resource: "GET /v1/bigger", Count: 1}, start + 2*second, 5, 7500},
		{"one that says what it costs", &schemas.Entry{Time: start + 2*second, Resource: "POST /v1/big", Count: 1, Declared: 1200}, start + 2*second, 6, 8700},
		{"that one ends", &schemas.Entry{Time: start + 3*second, Resource: "POST /v1/big", Count: 1, Declared: 1200, Response: true, Cost: 1200, Arrived: schemas.Tick(start + 2*second)}, start + 3*second, 5, 7500},
		{"one that ends within its tick", response(start+second, start+second+5_000_000, 1, 1000), start + 3*second, 4, 6500},
	} {
		if step.entry != nil {
			follow(s, terms, step.entry)
		}
		// What was learned moves what is held a little: the sums are exact.
		got := room(s, terms, 0, step.at)
		if got.InFlight != step.inFlight || got.Held < step.held*97/100 || got.Held > step.held*103/100 {
			t.Errorf("%s: got %d in flight, which hold %d, want %d and %d", step.name, got.InFlight, got.Held, step.inFlight, step.held)
		}
	}
	if got := room(s, terms, 0, start+minute); got.InFlight != 0 || got.Held != 0 {
		t.Errorf("in the next window: got %+v, want nothing held: those requests count in the window in which they arrived", got)
	}
}

// TestACohortOfWhichAllHaveEndedHoldsNothing, also if a recorder has merged responses of arrivals that it could not merge.
func TestACohortOfWhichAllHaveEndedHoldsNothing(t *testing.T) {
	terms := perMinute()
	s := New(terms)
	follow(s, terms, arrival(start, 1))
	follow(s, terms, arrival(start+schemas.MergeTick, 2))
	end := response(start, start+second, 3, 3000)
	end.Arrived += 2
	follow(s, terms, end)
	if len(s.cohorts) != 0 {
		t.Errorf("got %+v, want no cohort", s.cohorts)
	}
}

// TestADeclarationCountsAsAQuarterOfTheEstimate at least, until responses have said what it is worth.
func TestADeclarationCountsAsAQuarterOfTheEstimate(t *testing.T) {
	terms := perMinute()
	for declared, want := range map[int64]int64{0: 1000, 1: 250, 250: 250, 251: 251} {
		s, e := New(terms), arrival(start, 1)
		e.Declared = declared
		follow(s, terms, e)
		if got := room(s, terms, 0, start).Held; got != want {
			t.Errorf("declared %d: got %d held, want %d", declared, got, want)
		}
	}
}

// TestTheOrderOfEntriesDoesNotMatter for what is in flight: a response may come before its arrival, and windows may come in any order.
func TestTheOrderOfEntriesDoesNotMatter(t *testing.T) {
	for _, cohorts := range []struct {
		span int64
		n    int
	}{{minute, 2}, {3 * second, 21}, {75 * second, 9}} {
		terms := perMinute()
		terms.Span, terms.Cohorts = cohorts.span, cohorts.n
		rng := rand.New(rand.NewPCG(1, uint64(cohorts.n)))
		var entries []*schemas.Entry
		for range 200 {
			at, count := start+rng.Int64N(int64(cohorts.n)*cohorts.span/2), 1+rng.Uint32N(4)
			entries = append(entries, arrival(at, count))
			if rng.IntN(5) > 0 {
				entries = append(entries, response(at, at+rng.Int64N(40*second), count, rng.Int64N(3000)))
			}
		}
		var want *State
		for range 20 {
			s := New(terms)
			for _, e := range entries {
				follow(s, terms, e)
			}
			s.Learned = Learned{}
			if want == nil {
				want = s
			}
			if !reflect.DeepEqual(s, want) {
				t.Fatalf("cohorts of %v: got %+v, want %+v", time.Duration(cohorts.span), s, want)
			}
			rng.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		}
	}
}

// TestAPlaceIsForgotten: a lost response holds until its window or slot is over, or for the longest time of a request.
func TestAPlaceIsForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		span    int64
		cohorts int
		window  int64 // how far back it goes; 0 is a window that began long ago
		ends    int64
	}{
		"fixed minute":     {minute, 2, 0, 0},
		"sliding minute":   {3 * second, 21, minute, 63 * second},
		"month, of 10 min": {75 * second, 9, 31 * 24 * 60 * minute, 675 * second},
	} {
		terms := perMinute()
		terms.Span, terms.Cohorts = test.span, test.cohorts
		s := New(terms)
		at := start + (75*second - start%(75*second)) // all spans but the minute begin here
		s.Arrive(terms, arrival(at, 5))
		held := func(now int64) int64 {
			begin := now / test.span * test.span // of the newest slot, or window
			return s.Room(terms, limit, 0, begin-test.window, now).InFlight
		}
		if name == "fixed minute" {
			test.ends = minute - at%minute
		}
		if got := held(at + test.ends - 1); got != 5 {
			t.Errorf("%s: got %d in flight before the end, want 5", name, got)
		}
		if got := held(at + test.ends); got != 0 {
			t.Errorf("%s: got %d in flight after %v, want 0", name, got, time.Duration(test.ends))
		}
	}
}

// TestAShortPlaceHoldsNothing: responses whose arrivals were lost make one cohort short, and no other.
func TestAShortPlaceHoldsNothing(t *testing.T) {
	terms := perMinute()
	terms.Span, terms.Cohorts = 3*second, 21
	s := New(terms)
	follow(s, terms, response(start, start+2*second, 4, 4000))
	follow(s, terms, arrival(start+3*second, 2))
	if got := s.Room(terms, limit, 0, start-minute, start+4*second); got.InFlight != 2 {
		t.Errorf("got %d in flight, want 2", got.InFlight)
	}
	for range 4 {
		follow(s, terms, arrival(start, 1))
	}
	if got := s.Room(terms, limit, 0, start-minute, start+4*second); got.InFlight != 2 {
		t.Errorf("with the arrivals: got %d in flight, want 2", got.InFlight)
	}
}

// TestHostileEntries: whatever a producer writes, nothing overflows, and what is held is never negative.
func TestHostileEntries(t *testing.T) {
	terms := perMinute()
	rng := rand.New(rand.NewPCG(3, 4))
	values := []int64{0, 1, 1000, math.MaxInt32, 1 << 40, math.MaxInt64}
	times := []int64{math.MinInt64, -second, 0, start, start + 100*second, start + minute, math.MaxInt64}
	pick := func(list []int64) int64 { return list[rng.IntN(len(list))] }
	for round := range 200 {
		s := New(terms)
		for range 50 {
			e := &schemas.Entry{
				Time: pick(times), Kind: "key", ID: "a", Count: uint32(max(pick(values)&math.MaxUint32, 1)), Declared: pick(values),
				Response: rng.IntN(2) == 0,
			}
			if e.Response {
				e.Cost, e.Arrived = pick(values), pick(values)
			}
			follow(s, terms, e)
			for _, l := range []int64{1, limit, 1 << 53} {
				for _, now := range []int64{start, start + minute, math.MaxInt64 / 2} {
					r := s.Room(terms, l, pick(values), now-minute, now)
					if r.Held < 0 || r.Margin < 0 || r.InFlight < 0 || r.Mean < 1 || r.Left > l {
						t.Fatalf("round %d: got %+v after %+v", round, r, e)
					}
				}
			}
			if !s.Learned.valid() {
				t.Fatalf("round %d: got %+v after %+v", round, s.Learned, e)
			}
			numbers := numbersOf(s.AppendTo(nil))
			if again, rest, err := Read(numbers); err != nil || len(rest) > 0 || !reflect.DeepEqual(again.cohorts, slices.Clip(s.cohorts)) && len(s.cohorts) > 0 {
				t.Fatalf("round %d: got %+v, %v, want %+v again", round, again, err, s)
			}
		}
	}
}

package simulate

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// take returns the requests of a generator in the first part of its time.
func take(g traffic, until time.Duration) (list []Request) {
	for r := (Request{}); g.next(&r) && r.At < start+int64(until); {
		r.Callers = slices.Clone(r.Callers)
		list = append(list, r)
	}
	return list
}

// count returns how many requests lie in [from, to).
func count(list []Request, from, to time.Duration) (n int) {
	for i := range list {
		if at := time.Duration(list[i].At - start); from <= at && at < to {
			n++
		}
	}
	return n
}

// near reports whether n is a number of requests that a Poisson process of this mean gives, up to 5 standard deviations.
func near(n int, mean float64) bool { return math.Abs(float64(n)-mean) <= 5*math.Sqrt(mean)+1 }

// TestRatesAreKept by all kinds of streams, and requests come in order of time.
func TestRatesAreKept(t *testing.T) {
	half := func(time.Duration) float64 { return 500 }
	onOffRate := onOff(1000, 0, 2*time.Second, 5*time.Second)
	for name, tt := range map[string]struct {
		s    stream
		want [4]float64 // of the seconds 0, 1, 2 and 5
	}{
		"Poisson":         {stream{peak: 1000}, [4]float64{1000, 1000, 1000, 1000}},
		"thinned":         {stream{peak: 1000, rate: half}, [4]float64{500, 500, 500, 500}},
		"even":            {stream{peak: 1000, even: true}, [4]float64{1000, 1000, 1000, 1000}},
		"even, slower":    {stream{peak: 1000, even: true, rate: half}, [4]float64{500, 500, 500, 500}},
		"bursts":          {stream{peak: 1000, burst: 10}, [4]float64{1000, 1000, 1000, 1000}},
		"even bursts":     {stream{peak: 1000, burst: 10, even: true}, [4]float64{1000, 1000, 1000, 1000}},
		"on and off":      {stream{peak: 1000, rate: onOffRate}, [4]float64{1000, 1000, 0, 1000}},
		"even on and off": {stream{peak: 1000, rate: onOffRate, even: true}, [4]float64{1000, 1000, 0, 1000}},
		"nothing":         {stream{}, [4]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.s.id = "c"
			list := take(newGenerator(1, 1, nil, tt.s), 7*time.Second)
			for i, second := range []int{0, 1, 2, 5} {
				from := time.Duration(second) * time.Second
				n := count(list, from, from+time.Second)
				slack := float64(max(1, tt.s.burst))
				if !near(int(float64(n)/slack), tt.want[i]/slack) {
					t.Errorf("second %d: got %d requests, want about %.0f", second, n, tt.want[i])
				}
			}
			if !slices.IsSortedFunc(list, func(a, b Request) int { return int(a.At - b.At) }) {
				t.Error("got requests out of order")
			}
		})
	}
}

// TestEvenRequestsAreEvenlySpaced, and those of a Poisson process are not.
func TestEvenRequestsAreEvenlySpaced(t *testing.T) {
	for even, want := range map[bool]float64{true: 0, false: 1} {
		list := take(newGenerator(1, 1, nil, stream{id: "c", peak: 1000, even: even}), 10*time.Second)
		var mean, square float64
		for i := 1; i < len(list); i++ {
			d := float64(list[i].At - list[i-1].At)
			mean, square = mean+d, square+d*d
		}
		n := float64(len(list) - 1)
		mean, square = mean/n, square/n
		if got := math.Sqrt(max(0, square-mean*mean)) / mean; math.Abs(got-want) > 0.05 {
			t.Errorf("even %t: got distances that vary by %.2f of their mean, want %.0f", even, got, want)
		}
	}
}

// TestBurstsComeAtOnce: all requests of a burst, and the next burst later.
func TestBurstsComeAtOnce(t *testing.T) {
	list := take(newGenerator(1, 1, nil, stream{id: "c", peak: 1000, burst: 20}), 5*time.Second)
	for i := 0; i+20 <= len(list); i += 20 {
		if list[i].At != list[i+19].At || i > 0 && list[i].At == list[i-1].At {
			t.Fatalf("got requests %d to %d at %d to %d, want bursts of 20", i, i+19, list[i].At, list[i+19].At)
		}
	}
}

// TestServersGetTheirShares of the traffic, also where the shares rotate.
func TestServersGetTheirShares(t *testing.T) {
	for name, tt := range map[string]struct {
		weights       func(time.Duration) []float64
		first, second [4]float64
	}{
		"equal":    {nil, [4]float64{25, 25, 25, 25}, [4]float64{25, 25, 25, 25}},
		"rotating": {rotating(10*time.Second, 70, 20, 9, 1), [4]float64{70, 20, 9, 1}, [4]float64{20, 9, 1, 70}},
	} {
		var got [2][4]int
		for _, r := range take(newGenerator(3, 4, tt.weights, stream{id: "c", peak: 1000}), 20*time.Second) {
			got[time.Duration(r.At-start)/(10*time.Second)][r.Server]++
		}
		for i := range 4 {
			if !near(got[0][i], tt.first[i]*100) || !near(got[1][i], tt.second[i]*100) {
				t.Errorf("%s: got %v, want about %v and %v %% of 10 000", name, got, tt.first, tt.second)
				break
			}
		}
	}
}

// TestAFleetSendsByItsWeights, and u = 0 and u next to 1 are callers too.
func TestAFleetSendsByItsWeights(t *testing.T) {
	pick := fleetOf([]string{"a", "b", "c"}, []float64{1, 0, 3})
	for u, want := range map[float64]string{0: "a", 0.2: "a", 0.26: "c", 0.999: "c", math.Nextafter(1, 0): "c"} {
		if got := pick(u); got != want {
			t.Errorf("pick(%v): got %s, want %s", u, got, want)
		}
	}
}

// TestTheFleetIsAsAbout says: 5 % of 10 000 are over a limit of 100 a minute, and the others well below it.
func TestTheFleetIsAsAbout(t *testing.T) {
	testenv.Long(t)
	s, _ := Find("fleet")
	over, callers := 0, map[string]int{}
	for _, r := range take(s.traffic(&Options{Seed: 1}, 4), time.Minute) {
		callers[r.Callers[0].ID]++
	}
	for _, n := range callers {
		if n >= 100 {
			over++
		}
	}
	if over < 490 || over > 510 || len(callers) < 9900 {
		t.Errorf("got %d of %d callers over the limit, want some 500 of 10 000", over, len(callers))
	}
}

// TestSeedsMakeTraffic: the same seed the same, another one other traffic.
func TestSeedsMakeTraffic(t *testing.T) {
	requests := func(seed uint64) []int64 {
		var times []int64
		for _, r := range take(newGenerator(seed, 3, nil, stream{id: "c", peak: 100}, stream{id: "d", peak: 50}), time.Second) {
			times = append(times, r.At, int64(r.Server), int64(r.Callers[0].ID[0]))
		}
		return times
	}
	if !slices.Equal(requests(1), requests(1)) || slices.Equal(requests(1), requests(2)) {
		t.Error("want the same requests of one seed, and others of another")
	}
}

// sortBy sorts a list by a number, and leaves those with the same number in their order.
func sortBy[T any](list []T, by func(T) int) {
	slices.SortStableFunc(list, func(a, b T) int { return by(a) - by(b) })
}

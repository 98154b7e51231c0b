package gate

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// fleet is gates with clocks of their own, and an owner that gives one caller shares by what the gates' requests say. Times are
// nanoseconds after noon.
type fleet struct {
	sets   []*Set
	skew   []int64 // of each gate's clock
	weight []int64 // of each gate in the caller's demand
	lag    int64

	asked    []int64 // times of all requests, by the clock of the gate that each came to
	admitted map[int64]int64
	arrivals []arrival
}

// arrival is a decision on its way to all gates.
type arrival struct {
	at int64
	d  schemas.Decision
}

func (f *fleet) request(r *rand.Rand, now int64) {
	var sum int64
	for _, w := range f.weight {
		sum += w
	}
	i, left := 0, r.Int64N(sum)
	for left >= f.weight[i] {
		left -= f.weight[i]
		i++
	}
	mine := now + f.skew[i]
	f.asked = append(f.asked, mine)
	if v := f.sets[i].CheckAt(callersOf(f.sets[i], "key", "x"), noon.Add(time.Duration(mine))); !v.Closed {
		f.admitted[floor(mine, int64(time.Second))]++
	}
}

func floor(t, unit int64) int64 {
	n := t / unit
	if t%unit < 0 {
		n--
	}
	return n
}

// demand returns the requests in [from, until), as the log has them.
func (f *fleet) demand(from, until int64) (n int64) {
	for _, t := range f.asked {
		if from <= t && t < until {
			n++
		}
	}
	return n
}

// renew sends a share by the demand of the period that has ended. It is decided when the clock that is behind most has passed
// that end, and begins after it has come to all gates: in the second period after, which is after the next renewal is sent.
func (f *fleet) renew(period, permits int64) {
	const second = int64(time.Second)
	from, measured := (period+2)*second, period*second
	d := sharing("r", "key:x", 0, 0, permits, max(1, f.demand(measured-second, measured)), 0)
	d.Share.From, d.Share.Until = noon.UnixNano()+from, noon.UnixNano()+from+3*second
	d.Share.DemandFrom, d.Share.DemandUntil = noon.UnixNano()+measured-second, noon.UnixNano()+measured
	f.arrivals = append(f.arrivals, arrival{measured + 100*int64(time.Millisecond) + f.lag, d})
}

func (f *fleet) deliver(now int64) {
	for len(f.arrivals) > 0 && f.arrivals[0].at <= now {
		for i, s := range f.sets {
			s.ApplyAt(noon.Add(time.Duration(now+f.skew[i])), []schemas.Decision{f.arrivals[0].d})
		}
		f.arrivals = f.arrivals[1:]
	}
}

// TestSharesAddUp: over random skews, lags and splits of the demand, the requests that all gates admit in a period, by the times
// in the log, are at most K and one for each gate, and nearly K while demand is steady.
func TestSharesAddUp(t *testing.T) {
	const second = int64(time.Second)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "gates")
		f := fleet{lag: rapid.Int64Range(0, second/2).Draw(t, "lag"), admitted: make(map[int64]int64)}
		for range n {
			f.sets = append(f.sets, New(exact()))
			f.skew = append(f.skew, rapid.Int64Range(-second/20, second/20).Draw(t, "skew"))
			f.weight = append(f.weight, rapid.Int64Range(1, 20).Draw(t, "weight"))
		}
		permits := rapid.Int64Range(20, 200).Draw(t, "permits")
		demand := permits * rapid.Int64Range(2, 4).Draw(t, "demand")
		moves := rapid.Bool().Draw(t, "moves") // the traffic moves between gates
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		const periods = 10
		renewed := int64(0)
		for i := range demand * periods {
			now := i * second / demand
			if (now-second/10)/second > renewed {
				renewed++
				f.renew(renewed, permits)
				if moves {
					r.Shuffle(n, func(a, b int) { f.weight[a], f.weight[b] = f.weight[b], f.weight[a] })
				}
			}
			f.deliver(now)
			f.request(r, now)
		}
		// The first renewal comes at 1 s, measured by no gate, and begins at 3 s. The second one was measured before it came.
		for p := int64(3); p < periods-1; p++ {
			if most := permits + int64(n); f.admitted[p] > most {
				t.Errorf("period %d: got %d admitted, want at most %d", p, f.admitted[p], most)
			}
			if least := permits - int64(n) - permits/2; p >= 5 && !moves && f.admitted[p] < least {
				t.Errorf("period %d: got %d admitted, want at least %d", p, f.admitted[p], least)
			}
		}
		for _, s := range f.sets {
			s.verify(t)
		}
	})
}

package floods

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"
)

// refuses says of each request, in order of time, whether it is refused.
type refuses func(*Request) bool

func nothing(*Request) bool { return false }

// static is an exact limit: so many requests for expensive pages in any window. ofBits says whose: those of one address (32) or of its
// network (24).
type static struct {
	limit, ofBits int
	window        time.Duration
}

func (s static) String() string {
	of := map[int]string{24: "/24", 32: "address"}[s.ofBits]
	return fmt.Sprintf("%d in %.0f s for each %s", s.limit, s.window.Seconds(), of)
}

func (s static) refuses() refuses {
	admitted := map[netip.Prefix][]time.Time{}
	return func(x *Request) bool {
		if !x.Expensive {
			return false
		}
		caller := netip.PrefixFrom(x.Addr, s.ofBits).Masked()
		times := admitted[caller]
		for len(times) > 0 && x.At.Sub(times[0]) >= s.window {
			times = times[1:]
		}
		full := len(times) >= s.limit
		if !full {
			times = append(times, x.At)
		}
		admitted[caller] = times
		return full
	}
}

// best returns the static limit that brings the load down to the capacity within 5 s and refuses fewest requests of people. If none does,
// it returns the lowest one. Nobody who sets a limit knows the flood: this is more than a person can do.
func best(f *Flood, requests []Request, ofBits int) static {
	found, refused := static{1, ofBits, 10 * time.Minute}, -1
	for _, window := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
		for limit := 1; ; limit++ {
			s := static{limit, ofBits, window}
			r := f.Judge(requests, s.refuses())
			if r.Load > 1 {
				break
			}
			inTime := r.Late >= 0 && r.Late <= 5*time.Second
			if inTime && (refused < 0 || r.People.Refused < refused) {
				found, refused = s, r.People.Refused
			}
		}
	}
	return found
}

// shedding refuses requests for expensive pages by chance, as many as were too many in the second before.
func shedding(f *Flood) refuses {
	chance := rand.New(rand.NewPCG(f.Seed, 1<<32))
	var before []time.Time
	return func(x *Request) bool {
		if !x.Expensive {
			return false
		}
		before = append(before, x.At)
		for x.At.Sub(before[0]) >= time.Second {
			before = before[1:]
		}
		return chance.Float64() >= f.Capacity/float64(len(before))
	}
}

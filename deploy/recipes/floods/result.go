package floods

import (
	"fmt"
	"time"
)

// Part is how many of some requests were refused.
type Part struct{ Refused, Of int }

// String returns the number and the share.
func (p Part) String() string {
	return fmt.Sprintf("%d (%.2f %%)", p.Refused, 100*float64(p.Refused)/float64(max(1, p.Of)))
}

func (p *Part) add(refused bool) {
	p.Of++
	if refused {
		p.Refused++
	}
}

// Result is what a limit does to a flood.
type Result struct {
	Load     float64 // what passed to the expensive pages during the flood, in capacities
	Before   Part    // of people's requests, before the flood
	People   Part    // of people's requests, from its start to the end of the log
	GitFeeds Part
	Late     time.Duration // from the flood's start until the load stays at the capacity; -1 if it never does
}

// lateWindow is over what time the load is compared with the capacity, and lateOver how much more it may be by chance.
const (
	lateWindow = 10
	lateOver   = 1.2
)

// Judge asks of each request, in order of time, whether it is refused.
func (f *Flood) Judge(requests []Request, refused func(*Request) bool) Result {
	var result Result
	begin := f.Start.Add(f.Quiet)
	seconds := make([]float64, int(f.Lasts/time.Second)) // what passed in each second of the flood
	for i := range requests {
		x := &requests[i]
		no := refused(x)
		at := x.At.Sub(begin)
		if at < 0 {
			if x.Kind == Person {
				result.Before.add(no)
			}
			continue
		}
		switch x.Kind {
		case Person:
			result.People.add(no)
		case Git, Feed:
			result.GitFeeds.add(no)
		case Crawler: // nobody
		}
		if second := int(at / time.Second); x.Expensive && !no && second < len(seconds) {
			seconds[second]++
			result.Load += 1 / (f.Capacity * f.Lasts.Seconds())
		}
	}
	last := len(seconds) - lateWindow
	for i := 0; i <= last; i++ {
		sum := 0.0
		for _, n := range seconds[i : i+lateWindow] {
			sum += n
		}
		switch {
		case sum <= lateOver*lateWindow*f.Capacity:
		case i == last:
			result.Late = -1
		default:
			result.Late = time.Duration(i+1) * time.Second
		}
	}
	return result
}

package simulate

import (
	"time"

	"github.com/509da70d/floodgate/schemas/heap"
)

// flights is the requests in flight of one caller. The zero value has none.
type flights struct {
	ends    heap.Heap[int64] // when they end, in Unix nanoseconds
	at      int64            // up to when they are counted; 0: nothing is
	lengths []int64          // for how many nanoseconds there were so many in flight, after the warm-up
}

// fly counts a request in the number in flight.
func (m *measure) fly(s *subject, r *Request, ours bool) {
	m.flyTo(s, r.At)
	p := s.period(m.periodOf(r.At))
	p.demand++
	if ours {
		p.ours++
		s.flights.ends.Add(r.At + int64(r.Duration))
		p.peak = max(p.peak, int64(s.flights.ends.Len()))
	}
	s.full = s.full || int64(s.flights.ends.Len()) >= s.limit
}

// flyTo ends the requests in flight that end until a time, and adds up what is in flight meanwhile.
func (m *measure) flyTo(s *subject, to int64) {
	f := &s.flights
	if f.at == 0 {
		f.ends, f.at = heap.New(func(a, b *int64) bool { return *a < *b }, nil), to
	}
	for f.at < to {
		p := s.period(m.periodOf(f.at))
		next := min(to, p.start+m.length(p.start))
		n := int64(f.ends.Len())
		if n > 0 {
			next = min(next, *f.ends.At(0))
		}
		p.peak = max(p.peak, n)
		f.lengths = addAt(f.lengths, int(n), max(0, next-max(f.at, m.lasts.from)))
		for f.at = next; f.ends.Len() > 0 && *f.ends.At(0) <= next; {
			f.ends.Remove(0)
		}
	}
}

// addAt adds x to the number at a place of a list, which grows as it must.
func addAt(list []int64, at int, x int64) []int64 {
	for len(list) <= at {
		list = append(list, 0)
	}
	list[at] += x
	return list
}

// flights returns what the time says that requests were in flight.
func (t *lastingTally) flights() (over Quantiles, used float64) {
	total, passed := int64(0), int64(0)
	for _, length := range t.inFlight {
		total += length
	}
	for n, length := range t.inFlight {
		above, part := max(0, float64(n)/float64(t.limit)-1), ratio(float64(length), float64(total))
		over.Mean += part * above
		used += part * min(1, float64(n)/float64(t.limit))
		if length > 0 {
			over.Max = above
		}
		if 100*passed < 99*total {
			over.P99 = above
		}
		passed += length
	}
	over.N = int(time.Duration(total).Seconds())
	return over, used
}

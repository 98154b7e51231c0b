package record

import "fmt"

// Reason is why requests were dropped, and so not counted by anybody.
type Reason uint8

// Reasons. The first two are the Recorder's own, the others a link's.
const (
	Full        Reason = iota // more distinct entries than room, because the link is slow or away
	Contended                 // every stripe was in use at the same instant
	Backlog                   // more entries wait for a slow or absent Kafka than the link has room for
	Refused                   // Kafka refuses the frame for good, as too large or invalid
	ClockAhead                // Kafka refuses the frame because this machine's clock is ahead
	Undelivered               // Kafka refused the frame, for a passing reason, for too long
	Invalid                   // the entry cannot be put into a frame
	Shutdown                  // the link ended before it was sent
	reasons
)

// String returns the reason as a metric label.
func (r Reason) String() string {
	switch r {
	case Full:
		return "full"
	case Contended:
		return "contended"
	case Backlog:
		return "backlog"
	case Refused:
		return "refused"
	case ClockAhead:
		return "clock_ahead"
	case Undelivered:
		return "undelivered"
	case Invalid:
		return "invalid"
	case Shutdown:
		return "shutdown"
	}
	return "unknown"
}

// Stats is what has become of all requests given to a Recorder, each counted once per caller (and once more for its
// response). At all times Accepted = Acked + the sum of Dropped + Unknown + Queued.
type Stats struct {
	Accepted uint64
	Acked    uint64            // in the log
	Unknown  uint64            // sent and never confirmed: they may or may not be in the log
	Queued   uint64            // in the Recorder, or taken by a link that has not said yet what became of them
	Dropped  map[Reason]uint64 // every reason has an element
}

// DroppedTotal returns the sum of Dropped.
func (s *Stats) DroppedTotal() (n uint64) {
	for _, d := range s.Dropped {
		n += d
	}
	return n
}

// Stats returns a consistent snapshot. It takes each stripe in turn for some nanoseconds, which no request waits for.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	contended := r.contended.Load()
	s := Stats{Accepted: contended, Acked: r.acked, Unknown: r.unknown, Dropped: make(map[Reason]uint64, reasons)}
	s.Queued = r.drained - r.acked - r.unknown
	for reason, n := range r.dropped {
		s.Dropped[Reason(reason)] = n
		s.Queued -= n
	}
	s.Dropped[Contended] += contended
	for i := range r.stripes {
		p := &r.stripes[i]
		p.wait()
		s.Accepted += p.accepted
		s.Dropped[Full] += p.dropped
		s.Queued += p.table.Requests()
		p.release()
	}
	return s
}

// Acked says that n of the requests drained are in the log. It panics if more are settled than were drained.
func (r *Recorder) Acked(n uint64) { r.settle(&r.acked, n) }

// Unknown says that n of the requests drained were sent, and that nobody knows whether they are in the log.
func (r *Recorder) Unknown(n uint64) { r.settle(&r.unknown, n) }

// Dropped says that n of the requests drained are not in the log and never will be.
func (r *Recorder) Dropped(reason Reason, n uint64) { r.settle(&r.dropped[reason], n) }

func (r *Recorder) settle(outcome *uint64, n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*outcome += n
	settled := r.acked + r.unknown
	for _, d := range r.dropped {
		settled += d
	}
	if settled > r.drained {
		panic(fmt.Sprintf("BUG: got %d requests settled, want at most the %d drained", settled, r.drained))
	}
}

package record

import "fmt"

// Reason says why requests were dropped, so that no analyzer counts them.
type Reason uint8

// Reasons. The Recorder drops for the first two, the link for the others.
const (
	Full        Reason = iota // more distinct entries than room, because the link is slow or away
	Contended                 // every stripe was in use at the same instant
	Backlog                   // more entries wait for a slow or absent Kafka than the link has room for
	Refused                   // Kafka refuses the frame permanently, as too large or invalid
	ClockAhead                // Kafka refuses the frame because this machine's clock is ahead
	Undelivered               // Kafka refused the frame for a temporary reason until its time ran out
	Invalid                   // the entry cannot be put into a frame
	Shutdown                  // the link ended before the entry was sent
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

// MarshalText returns String, so that JSON names the reasons of Stats.Dropped.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText takes what MarshalText returns for a reason that there is. Other text is an error.
func (r *Reason) UnmarshalText(text []byte) error {
	for known := range reasons {
		if known.String() == string(text) {
			*r = known
			return nil
		}
	}
	return fmt.Errorf("got %q, want the name of a reason such as %s", text, Full)
}

// Stats counts all requests given to a Recorder by their outcome. Each request counts once for each caller, and once more
// for each caller when its response is recorded. At all times Accepted = Acked + the sum of Dropped + Unknown + Queued.
type Stats struct {
	Accepted uint64
	Acked    uint64            // in the log
	Unknown  uint64            // sent and never confirmed: they may or may not be in the log
	Queued   uint64            // in the Recorder, or drained by a link that has not reported their outcome yet
	Dropped  map[Reason]uint64 // every reason has an element
}

// DroppedTotal returns the sum of Dropped.
func (s *Stats) DroppedTotal() (n uint64) {
	for _, d := range s.Dropped {
		n += d
	}
	return n
}

// Stats returns a consistent snapshot. It takes each stripe in turn for some nanoseconds. No request waits for it.
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
		p.takeWaiting()
		s.Accepted += p.accepted
		s.Dropped[Full] += p.dropped
		s.Queued += p.table.Requests()
		p.release()
	}
	return s
}

// Acked reports that n of the requests drained are in the log. Acked, Unknown and Dropped panic if they report more requests
// together than were drained.
func (r *Recorder) Acked(n uint64) { r.settle(&r.acked, n) }

// Unknown reports that n of the requests drained were sent and never confirmed: they may or may not be in the log.
func (r *Recorder) Unknown(n uint64) { r.settle(&r.unknown, n) }

// Dropped reports that n of the requests drained are not in the log and never will be.
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

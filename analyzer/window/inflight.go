package window

import (
	"math"
	"strconv"
	"time"
)

// NameInFlight is the name of windows that NewInFlight makes. No rule names them: they belong to a measure.
const NameInFlight = "in_flight"

// inFlightSlots is how many slots make up the longest time of a request.
const inFlightSlots = 8

// NewInFlight returns a window of the requests that are in flight. An arrival has the weight 1, at its time. A response has the weight −1, at
// the time of its arrival. A request without a response is forgotten after longest, or up to an eighth of that later. It panics if longest is
// not positive.
func NewInFlight(longest time.Duration) Algorithm {
	slot := (nanoseconds(longest) + inFlightSlots*second - 1) / (inFlightSlots * second) * second
	return inFlight{sliding{length: int64(longest), slot: slot, slots: inFlightSlots}}
}

// inFlight keeps the same integers as sliding, by the times of arrivals. A slot in which more responses than arrivals have come holds nothing:
// it is short until those arrivals come. All of it is sums, so the order of entries does not matter.
type inFlight struct{ sliding }

func (w inFlight) Add(s State, limit, t, weight int64) (State, Count) {
	if weight == 0 {
		return s, w.View(s, limit, t)
	}
	s, place := w.put(s, t, weight)
	for len(s) > 2 && s[len(s)-1] == 0 {
		s = s[:len(s)-1]
	}
	return s, w.count(s, 0, limit, t, place)
}

func (w inFlight) Valid(s State) bool {
	return len(s) == 0 || len(s) >= 2 && int64(len(s)) <= w.slots+2 && (len(s) == 2 || s[len(s)-1] != 0)
}

func (w inFlight) Shape() string { return NameInFlight + "/" + strconv.FormatInt(w.length, 10) }

func (w inFlight) Traits() Traits { return Traits{Slot: w.slot, Releases: true} }

// Coarse keeps nothing. A coarse state must never count more than the full one, and one that lacks a response would.
func (w inFlight) Coarse() Coarse { return nothing{} }

// nothing is a Coarse that counts nothing.
type nothing struct{}

func (nothing) Add(_ State, _, t, _ int64) (State, Count) { return nil, Count{Start: t, Until: t} }

func (nothing) View(_ State, _, t int64) Count { return Count{Start: t, Until: t} }

func (nothing) Expiry(State) int64 { return math.MinInt64 }

func (nothing) Valid(s State) bool { return len(s) == 0 }

func (nothing) Refine(State, int64, int64) State { return nil }

func (nothing) Coarsen(State, int64) State { return nil }

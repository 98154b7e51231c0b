package pool

import (
	"encoding/binary"
	"time"
)

// Holds is for how long a tally and a level hold after they were folded, in log time.
const Holds = int64(10 * time.Second)

// Home is what the owner of a pool's home partition keeps: the newest tally of each partition, and the level that follows. The zero value
// has none. One goroutine may use it.
type Home struct {
	Tallies []Received // by partition
	Level   Level      // the newest that was made
	Ended   int64      // the quarter at which the last level ended
}

// farewells is for how many quarters more the home says that there is no level any more. The first time may be lost.
const farewells = 3

// Received is a tally as it was folded.
type Received struct {
	Tally Tally
	At    int64 // log time, in Unix nanoseconds
}

// live reports whether the tally still counts.
func (r *Received) live(now int64) bool { return r.At > 0 && now-r.At < Holds }

// Receive keeps a partition's tally if it is newer than the one before, and reports whether it is.
func (h *Home) Receive(partition int, t *Tally, now int64) bool {
	for len(h.Tallies) <= partition {
		h.Tallies = append(h.Tallies, Received{})
	}
	if r := &h.Tallies[partition]; r.At > 0 && t.Quarter <= r.Tally.Quarter {
		return false
	}
	h.Tallies[partition] = Received{*t, now}
	return true
}

// Next makes the next level, if it is time for it: when all partitions have said what was asked for in a quarter, or at the end of the next
// one. ended is the last quarter that is over in log time. send reports whether owners must learn the level: there is
// one, or one has ended a few quarters ago at most.
func (h *Home) Next(terms *Terms, ended, now int64) (made, send bool) {
	quarter, asked := ended, false
	for i := range h.Tallies {
		if r := &h.Tallies[i]; r.live(now) && r.Tally.Total > 0 {
			quarter, asked = min(quarter, r.Tally.Quarter), true
		}
	}
	quarter = max(quarter, ended-1)
	if quarter <= h.Level.Quarter || !asked && h.Level.Asked == 0 && h.Level.Level == 0 {
		return false, false
	}
	demand := Tally{Quarter: quarter}
	for i := range h.Tallies {
		if r := &h.Tallies[i]; r.live(now) {
			demand.plus(&r.Tally)
		}
	}
	before := h.Level.Level
	h.Level = h.Level.next(terms, &demand)
	if before > 0 && h.Level.Level == 0 {
		h.Ended = quarter
	}
	return true, h.Level.Level > 0 || h.Ended > 0 && quarter-h.Ended < farewells
}

// Oldest returns when the oldest of the partitions' newest tallies was folded, of those whose callers have asked for anything; ok is false if
// there is none. It may be one that counts no more: its partition has said nothing since.
func (h *Home) Oldest() (at int64, ok bool) {
	for i := range h.Tallies {
		if r := &h.Tallies[i]; r.At > 0 && r.Tally.Total > 0 && (!ok || r.At < at) {
			at, ok = r.At, true
		}
	}
	return at, ok
}

// AppendTo appends what the home keeps: its level, when one ended, and of each tally log time, length and text.
func (h *Home) AppendTo(b []byte) []byte {
	b = binary.AppendVarint(h.Level.AppendTo(b), h.Ended)
	for i := range h.Tallies {
		r := &h.Tallies[i]
		text := r.Tally.AppendTo(nil)
		b = binary.AppendVarint(b, r.At)
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

// ReadHome reads all of b, which AppendTo has appended.
func ReadHome(b []byte) (h Home, err error) {
	r := reader{b: b}
	h.Level, h.Ended = Level{r.signed(), r.number(), r.number(), r.number()}, r.signed()
	for len(r.b) > 0 {
		at, n := r.signed(), r.number()
		if r.err == nil && n > int64(len(r.b)) {
			r.fail()
		}
		if r.err != nil {
			return Home{}, r.err
		}
		t, err := ReadTally(r.b[:n])
		if err != nil {
			return Home{}, err
		}
		h.Tallies, r.b = append(h.Tallies, Received{t, at}), r.b[n:]
	}
	return h, r.err
}

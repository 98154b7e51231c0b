package fold

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// heard is which producers have sent entries of late. It is not stored. The zero value has heard of none.
type heard struct {
	of    map[schemas.ProducerID]hearing
	at    int64 // log time at which live was computed
	until int64
	gates int64
}

// hearing is what is known of one producer: the newest time of its entries, by its clock, and the log time when it was heard of.
type hearing struct{ newest, at int64 }

const (
	heardFor  = 10 * time.Second // canaries come more often
	maxHeard  = 4096             // producers; more are not heard of
	heardTick = int64(5 * time.Millisecond)

	// mergeTick is by how much an entry may be older than one that its producer has sent before: recorders merge, and send in no
	// order.
	mergeTick = int64(10 * time.Millisecond)
)

// note notes a frame.
func (h *heard) note(id schemas.ProducerID, newest, now int64) {
	old, known := h.of[id]
	if !known {
		if h.of == nil {
			h.of = make(map[schemas.ProducerID]hearing)
		}
		if len(h.of) >= maxHeard {
			h.forget(now)
		}
		if len(h.of) >= maxHeard {
			return
		}
		old.newest = newest
	}
	h.of[id] = hearing{max(old.newest, newest), now}
}

func (h *heard) forget(now int64) {
	for id, p := range h.of {
		if p.at < ago(now, heardFor) {
			delete(h.of, id)
		}
	}
}

// live returns until when the entries of all producers have come, but of those that were silent for longer than silence, and how
// many producers were heard of.
func (h *heard) live(now, silence int64) (until, gates int64) {
	if h.gates > 0 && now-h.at < heardTick {
		return h.until, h.gates
	}
	h.forget(now)
	h.at, h.until, h.gates = now, now, int64(len(h.of))
	for _, p := range h.of {
		if p.at >= now-silence {
			h.until = min(h.until, p.newest)
		}
	}
	h.until -= mergeTick
	return h.until, h.gates
}

package predict

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// producers holds the producers that have sent entries in the last seconds. The zero value has none.
type producers struct {
	byID  map[schemas.ProducerID]lastHeard
	at    int64 // log time at which complete was computed
	until int64
	gates int64
}

// lastHeard is what is known of one producer: the newest time of its entries, by its clock, and the log time when they came.
type lastHeard struct{ newest, at int64 }

const (
	activeFor    = 10 * time.Second // canaries come more often
	maxActive    = 4096             // producers; more are left out
	completeTick = int64(5 * time.Millisecond)

	// mergeTick is by how much an entry may be older than an earlier entry of its producer: recorders merge entries, and do not send them in
	// order.
	mergeTick = int64(10 * time.Millisecond)
)

// note notes a frame.
func (p *producers) note(id schemas.ProducerID, newest, now int64) {
	old, known := p.byID[id]
	if !known {
		if p.byID == nil {
			p.byID = make(map[schemas.ProducerID]lastHeard)
		}
		if len(p.byID) >= maxActive {
			p.forget(now)
		}
		if len(p.byID) >= maxActive {
			return
		}
		old.newest = newest
	}
	p.byID[id] = lastHeard{max(old.newest, newest), now}
}

func (p *producers) forget(now int64) {
	for id, heard := range p.byID {
		if heard.at < ago(now, activeFor) {
			delete(p.byID, id)
		}
	}
}

// complete returns the time up to which all active producers have sent their entries, and how many producers are active. It does not wait
// for a producer that was silent for longer than silence.
func (p *producers) complete(now, silence int64) (until, gates int64) {
	if p.gates > 0 && now-p.at < completeTick {
		return p.until, p.gates
	}
	p.forget(now)
	p.at, p.until, p.gates = now, now, int64(len(p.byID))
	for _, heard := range p.byID {
		if heard.at >= now-silence {
			p.until = min(p.until, heard.newest)
		}
	}
	p.until -= mergeTick
	return p.until, p.gates
}

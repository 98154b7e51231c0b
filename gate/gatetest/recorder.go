package gatetest

import (
	"slices"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// Event is what was recorded about one caller of one request.
type Event struct {
	Caller   schemas.Caller
	Resource string
	Blocked  bool  // its own gate was closed
	Early    bool  // and only early closures held it closed
	Response bool  // the end of a request; the other events are arrivals
	Status   int   // responses only
	Cost     int64 // responses only

	Declared int64     // what the request was expected to cost; only if the Recorder holds
	Arrived  time.Time // when the request arrived; only if the Recorder holds, and not of a blocked one
}

// Recorder keeps what is recorded, in order. The zero value is ready to use and wants responses. Any goroutine may use it.
type Recorder struct {
	Hold bool // it holds, as a record.Recorder with Options.Holds. Set it before the first use

	mu     sync.Mutex // protects events
	events []Event
}

// Record keeps the arrival of a request: one event for each caller of an admitted request, and one for each caller of a
// refused request whose own gate was closed. record.Recorder counts the same callers.
func (r *Recorder) Record(c *gate.Callers, v gate.Verdict, q record.Request) {
	for i, caller := range callers(c) {
		if v.Closed && !v.ClosedFor(i) {
			continue
		}
		e := Event{Caller: caller, Resource: q.Resource, Blocked: v.ClosedFor(i), Early: v.EarlyFor(i)}
		if r.Hold && !v.Closed {
			e.Declared, e.Arrived = declared(q.Declared), q.At
		}
		r.add(e)
	}
}

// Respond keeps the end of a request, one event for each caller.
func (r *Recorder) Respond(c *gate.Callers, p record.Response) {
	for _, caller := range callers(c) {
		e := Event{Caller: caller, Resource: p.Resource, Response: true, Status: p.Status, Cost: p.Cost}
		if r.Hold {
			e.Declared, e.Arrived = declared(p.Declared), p.Arrived
		}
		r.add(e)
	}
}

// declared returns an expected cost as record.Recorder counts it.
func declared(cost int64) int64 { return min(max(cost, 0), record.MaxDeclared) }

// Responses reports true.
func (r *Recorder) Responses() bool { return true }

// Holds reports Hold.
func (r *Recorder) Holds() bool { return r.Hold }

// Events returns a copy of the events so far.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Reset removes all events.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
}

func (r *Recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// callers returns copies that outlive c.
func callers(c *gate.Callers) []schemas.Caller {
	out := make([]schemas.Caller, c.Len())
	for i := range out {
		kind, id, _ := c.At(i)
		out[i] = schemas.Caller{Kind: kind, ID: string([]byte(id))}
	}
	return out
}

package gatetest

import (
	"slices"
	"sync"

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
}

// Recorder keeps what is recorded, in order. The zero value is ready to use and wants responses. Any goroutine may use it.
type Recorder struct {
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
		r.add(Event{Caller: caller, Resource: q.Resource, Blocked: v.ClosedFor(i), Early: v.EarlyFor(i)})
	}
}

// Respond keeps the end of a request, one event for each caller.
func (r *Recorder) Respond(c *gate.Callers, p record.Response) {
	for _, caller := range callers(c) {
		r.add(Event{Caller: caller, Resource: p.Resource, Response: true, Status: p.Status, Cost: p.Cost})
	}
}

// Responses reports true.
func (r *Recorder) Responses() bool { return true }

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

package control

import (
	"slices"

	"github.com/509da70d/floodgate/schemas"
)

// Order says what applies before which record of requests[p], as the control topic has it. Add gets the records of the topic about the
// partition, in their order. Due returns what applies, in its order. When an Order is asked makes no difference to its answers, except for
// a partition that has lost its end: see Step.Before.
//
// One goroutine may use an Order. Make one with NewOrder.
type Order struct {
	fence      schemas.Fence    // takes and places that count
	next       int64            // the offset of the topic behind what was read
	assignedTo int64            // what people decided before this offset belongs to a step, which may be over
	waiting    []Record         // what people decided from assignedTo on
	steps      []Step           // the steps of places that count and were not due yet; their Before never decreases
	noted      map[uint64]int64 // offsets of the notes of rules, by the id of the rules
}

// Step is what one place applies.
type Step struct {
	Place   int64    // the offset of the place in the control topic
	Epoch   uint64   // of the owner that appended it
	Before  int64    // the offset of requests[p] before which the step applies: the lowest one that this place and later ones name
	Records []Record // what people decided, in order; it applies before the rules
	RulesID uint64   // the rules that count from there on, …
	RulesAt int64    // … and where they are noted
}

// NewOrder returns an Order that begins after a place that counts; with nil, at the start of the topic. Add must get the records from Next
// on.
func NewOrder(after *Record) *Order {
	o := &Order{noted: make(map[uint64]int64)}
	if after != nil {
		c := &after.Control
		o.fence = schemas.Fence{Epoch: c.Epoch, Seq: c.Seq}
		o.assignedTo = min(c.UpTo, after.Offset)
		o.next = o.assignedTo
		o.noted[c.RulesID] = c.RulesAt
	}
	return o
}

// Add adds the next record of the topic about the partition.
func (o *Order) Add(r *Record) {
	c := &r.Control
	switch {
	case c.Action == schemas.ControlTake:
		o.fence.Claim(c.Epoch)
	case c.Action == schemas.ControlPlace:
		if o.fence.Heartbeat(c.Epoch, c.Seq) {
			o.place(r)
		}
	case c.Action == schemas.ControlRules:
		if _, known := o.noted[c.RulesID]; !known {
			o.noted[c.RulesID] = r.Offset
		}
	case r.Offset >= o.assignedTo:
		o.waiting = append(o.waiting, *r)
	}
}

// place adds the step of a place that counts.
func (o *Order) place(r *Record) {
	c := &r.Control
	for i := len(o.steps) - 1; i >= 0 && o.steps[i].Before > c.Before; i-- {
		o.steps[i].Before = c.Before
	}
	n, upTo := 0, min(c.UpTo, r.Offset)
	for n < len(o.waiting) && o.waiting[n].Offset < upTo {
		n++
	}
	o.steps = append(o.steps, Step{
		Place: r.Offset, Epoch: c.Epoch, Before: c.Before, Records: o.waiting[:n:n], RulesID: c.RulesID, RulesAt: c.RulesAt,
	})
	o.waiting, o.assignedTo = o.waiting[n:], max(o.assignedTo, upTo)
}

// ReadTo says that all records about the partition before an offset of the topic were taken.
func (o *Order) ReadTo(next int64) { o.next = max(o.next, next) }

// Next returns the offset of the topic behind what was read.
func (o *Order) Next() int64 { return o.next }

// Epoch returns the highest epoch of a take or place: an owner of a lower one was replaced.
func (o *Order) Epoch() uint64 { return o.fence.Epoch }

// Seq returns the highest number of a place of that epoch.
func (o *Order) Seq() uint64 { return o.fence.Seq }

// Due returns the next step that applies before the record of requests[p] at an offset. ok is false if there is none. Call it until then.
func (o *Order) Due(offset int64) (step Step, ok bool) {
	if len(o.steps) == 0 || o.steps[0].Before > offset {
		return Step{}, false
	}
	step = o.steps[0]
	o.steps = o.steps[1:]
	return step, true
}

// Steps returns the steps that were not due yet. They must not be changed.
func (o *Order) Steps() []Step { return o.steps }

// Waiting returns the decisions of people that belong to no place yet. They must not be changed.
func (o *Order) Waiting() []Record { return o.waiting }

// Applied returns the offset of the topic before which all decisions of people about the partition are applied. It assumes that the
// caller has applied the steps that Due returned.
func (o *Order) Applied() int64 {
	for i := range o.steps {
		if r := o.steps[i].Records; len(r) > 0 {
			return r[0].Offset
		}
	}
	if len(o.waiting) > 0 {
		return o.waiting[0].Offset
	}
	return o.next
}

// PassedOver reports whether counts lack a place that they should have applied. offset is the offset of requests[p] that the counts reach,
// and placed is the offset of the topic before which they have applied all places. Counts that lack a place were made by an owner that had
// been replaced.
func (o *Order) PassedOver(offset, placed int64) bool {
	return slices.ContainsFunc(o.steps, func(s Step) bool { return s.Place >= placed && s.Before < offset })
}

// Forget drops the steps before an offset of requests[p], because an older topic has said what applies there. The decisions of people
// in these steps wait for the next place. A fold that has applied a decision does not apply it again.
func (o *Order) Forget(offset int64) {
	var records []Record
	for len(o.steps) > 0 && o.steps[0].Before < offset {
		records = append(records, o.steps[0].Records...)
		o.steps = o.steps[1:]
	}
	if len(o.steps) > 0 {
		o.steps[0].Records = append(records, o.steps[0].Records...)
		return
	}
	o.waiting = append(records, o.waiting...)
}

// Noted returns the offset of the topic at which rules are noted.
func (o *Order) Noted(id uint64) (offset int64, ok bool) {
	offset, ok = o.noted[id]
	return offset, ok
}

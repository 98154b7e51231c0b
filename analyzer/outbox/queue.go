package outbox

import (
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
)

// Item is a decision that was not published yet.
type Item struct {
	Decision schemas.Decision
	Kind     Kind
	Closes   []fold.Change // the closes that it is about: several if they came faster than they were published
	Spared   bool          // do not publish it: it would be over when gates learn of it, or a share covers it. Its Closes still count
}

// MaxCloses is how many closes of one rule and caller an Item holds. Further ones are dropped.
const MaxCloses = 64

// Queue holds the decisions that wait to be published, at most one for each rule and caller. The zero value is empty. One
// goroutine at a time may use a Queue.
type Queue struct {
	pending map[Key]*entry    // the newest for each key
	ready   []*entry          // to publish at once, in order
	waiting heap.Heap[*entry] // to publish later, by the time at which they are due
	recent  recent
	offers  uint64
	seq     uint64
}

// entry is an Item that waits.
type entry struct {
	Item

	due    int64  // when to publish it, by the publisher's clock in Unix nanoseconds
	seq    uint64 // orders entries that are due at the same time
	index  int    // in Queue.waiting; −1: it is ready
	must   bool   // never spare it: it opens, predicts, or follows from new rules
	plan   bool   // Decision is of a plan, and not of a change
	offer  uint64 // the call of Offer that Decision came with
	offset int64  // the offset in the log that Decision came with
}

// before orders entries that wait.
func before(a, b **entry) bool {
	return (*a).due < (*b).due || (*a).due == (*b).due && (*a).seq < (*b).seq
}

// OpenTogether is how many callers a change of rules may open in a partition without delay. Gates open a closure without delay if its
// decision ends when it begins. If there are more callers, gates spread their openings over up to 10 s, as they do with closures
// that end together.
const OpenTogether = 100

// Offer adds the decisions that follow from the fold's changes and plans. Both were taken from the fold after the same entry. The newest
// decision about each rule and caller replaces older ones. Offer ignores warnings. It returns how many decisions it spared, because they
// would be over when gates learn of them, or because a share covers them. Their closes are still in an Item.
func (q *Queue) Offer(changes []fold.Change, plans []predict.Plan, t Terms) (spared int) {
	q.offers++
	few := openings(changes) <= OpenTogether
	for i := range changes {
		c := &changes[i]
		if c.Kind == policy.Same {
			continue
		}
		d := decisionOf(c)
		if c.Kind == policy.Opened && few {
			d.Until = min(d.Until, d.CloseAt)
		}
		d.Evidence.Lag = t.Measured
		if q.change(c, d, &t) {
			spared++
		}
	}
	for i := range plans {
		if q.plan(&plans[i], &t) {
			spared--
		}
	}
	return spared
}

// openings returns how many of the changes open a caller ahead of time.
func openings(changes []fold.Change) (n int) {
	for i := range changes {
		if changes[i].Kind == policy.Opened {
			n++
		}
	}
	return n
}

// change adds the decision d of a change. It reports whether the decision is spared.
func (q *Queue) change(c *fold.Change, d schemas.Decision, t *Terms) (spared bool) {
	key, kind := KeyOf(&d), kindOf(c.Kind)
	if c.Covered && !t.Urgent && q.covered(key, c, &d, kind) {
		return true
	}
	must := t.Urgent || kind == Opened
	e := q.pending[key]
	spared = !must && (e == nil || !e.must) && t.over(&d, c.Rule.Window.Length(c.At)) && !q.recent.outlasts(key, &d)
	due := t.Now
	switch {
	case spared:
		q.recent.spare(key, t.Now)
		if e == nil && kind == Moved {
			return true
		}
	case !must:
		due = q.recent.due(key, kind, c.Before.Until, t)
	}
	e = q.put(key, d, kind, due, t.Now)
	e.Spared, e.must, e.plan, e.offset = spared, e.must || must, false, c.Offset
	if c.Kind == policy.Closed && len(e.Closes) < MaxCloses {
		e.Closes = append(e.Closes, *c)
	}
	return spared
}

// covered adds a change that a caller's share covers. Gates need not learn of it, so it does not replace a decision that waits. ok is
// false for an opening, which a share never covers.
func (q *Queue) covered(key Key, c *fold.Change, d *schemas.Decision, kind Kind) (ok bool) {
	if kind == Opened {
		return false
	}
	if kind == Moved {
		return true
	}
	e := q.pending[key]
	if e == nil {
		e = q.put(key, *d, kind, 0, 0)
		e.Spared, e.must, e.plan, e.offset = true, false, false, c.Offset
	}
	if len(e.Closes) < MaxCloses {
		e.Closes = append(e.Closes, *c)
	}
	return true
}

// plan adds the decision of a plan, unless a change that was counted after the plan already carries it. It returns true if the decision
// about the rule and caller was spared by this Offer, and is now sent because it carries the plan.
func (q *Queue) plan(p *predict.Plan, t *Terms) (unspared bool) {
	d := separated(p.Decision)
	d.Evidence.Lag = t.Measured
	key, kind := KeyOf(&d), Early
	if p.Shares {
		kind = Share
	}
	e := q.pending[key]
	if e != nil && e.offer == q.offers && !p.Shares && e.after(p) {
		if e.Decision.Next == (schemas.Span{}) {
			return false
		}
		unspared = e.Spared // gates do not know the next closure of the decision
		e.Spared, e.must = false, true
		q.hurry(e)
		return unspared
	}
	unspared = e != nil && e.Spared && e.offer == q.offers
	e = q.put(key, d, kind, t.Now, t.Now)
	e.Spared, e.must, e.plan, e.offset = false, true, true, p.Offset
	return unspared
}

// after reports whether the entry was counted after the plan was made. Both came with the same Offer. If both come from one record, the
// entry counts as newer if the plan's first closure is not the entry's.
func (e *entry) after(p *predict.Plan) bool {
	if e.plan || e.offset != p.Offset {
		return e.offset > p.Offset
	}
	return p.Decision.Early || p.Decision.CloseAt != e.Decision.CloseAt || p.Decision.Until != e.Decision.Until
}

// Add adds a decision that is published at once, in place of an older one about the same rule and caller.
func (q *Queue) Add(d schemas.Decision, kind Kind) {
	e := q.put(KeyOf(&d), d, kind, 0, 0)
	e.Spared, e.must, e.plan = false, true, false
}

// put makes a decision the newest one about its rule and caller. It takes the place of an older one that waits. If it is due, it is
// ready at once.
func (q *Queue) put(key Key, d schemas.Decision, kind Kind, due, now int64) *entry {
	e, ok := q.pending[key]
	if !ok {
		if q.pending == nil {
			q.pending = make(map[Key]*entry)
			q.waiting = heap.New(before, func(e **entry, at int) { (*e).index = at })
		}
		e = &entry{Item: Item{Kind: kind}, due: due, seq: q.seq, index: -1}
		q.seq++
		q.pending[key] = e
		if due > now {
			q.waiting.Add(e)
		} else {
			q.ready = append(q.ready, e)
		}
	} else if due <= now {
		q.hurry(e)
	}
	if kind == Opened || len(e.Closes) == 0 {
		e.Kind = kind
	}
	e.Decision, e.offer = d, q.offers
	return e
}

// hurry makes an entry ready, if it is not.
func (q *Queue) hurry(e *entry) {
	if e.index >= 0 {
		q.waiting.Remove(e.index)
		e.index = -1
		q.ready = append(q.ready, e)
	}
}

// Len returns how many decisions wait, with those that are spared.
func (q *Queue) Len() int { return len(q.pending) }

// Due returns when to publish the next decision, by the clock of Terms.Now in Unix nanoseconds; 0 is at once. ok is false if none
// waits.
func (q *Queue) Due() (at int64, ok bool) {
	switch {
	case len(q.ready) > 0:
		return 0, true
	case q.waiting.Len() > 0:
		return (*q.waiting.At(0)).due, true
	}
	return 0, false
}

// Take removes the decisions that are due at now, by the clock of Terms.Now, and returns them in the order in which they became
// ready: at most n of them, or all if n is 0.
func (q *Queue) Take(now int64, n int) []Item {
	for q.waiting.Len() > 0 && isDue((*q.waiting.At(0)).due, now) {
		q.hurry(*q.waiting.At(0))
	}
	if n <= 0 || n > len(q.ready) {
		n = len(q.ready)
	}
	list := make([]Item, n)
	for i, e := range q.ready[:n] {
		list[i] = e.Item
		key := KeyOf(&e.Decision)
		delete(q.pending, key)
		if !e.Spared {
			q.recent.sent(key, &e.Item, now)
		}
	}
	clear(q.ready[:n])
	if q.ready = q.ready[n:]; len(q.ready) == 0 {
		q.ready = nil
	}
	if len(q.pending) == 0 {
		q.pending = nil // a map does not shrink
	}
	return list
}

// TakeAll is Take of all decisions, due or not. It is for a publisher that stops.
func (q *Queue) TakeAll(now int64) []Item {
	for q.waiting.Len() > 0 {
		q.hurry(*q.waiting.At(0))
	}
	return q.Take(now, 0)
}

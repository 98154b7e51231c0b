package outbox

import (
	"cmp"
	"maps"
	"slices"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
)

// InForce holds the decisions in force, which a publisher repeats in cycles. A decision is in force until its last counted
// closure ends. What is predicted ends by itself and is not repeated; but a repeat replaces all that gates know of the rule and
// caller, so it carries a predicted closure that is still to come. NewInForce makes one. One goroutine at a time may use an
// InForce.
type InForce struct {
	decisions map[Key]schemas.Decision
	maxRows   int
	cycle     []Key // decisions that the current cycle must still repeat
	began     int64 // the offset of decisions[p] where the current cycle began
	from      int64 // the offset where the last complete cycle began
	tally     tally
}

// NewInForce returns an InForce that holds nothing. maxRows is fold.Options.MaxRows; it bounds how many decisions are held.
func NewInForce(maxRows int) *InForce {
	return &InForce{decisions: make(map[Key]schemas.Decision), maxRows: maxRows, tally: make(tally)}
}

// Set stores a decision that is published at now, in Unix nanoseconds, in place of an older one about the same rule and caller.
func (f *InForce) Set(d *schemas.Decision, now int64) {
	if ended(d, now) {
		f.drop(KeyOf(d))
		return
	}
	f.put(KeyOf(d), *d)
	f.bound(now)
}

// ended reports whether all counted closures of the decision are over at now.
func ended(d *schemas.Decision, now int64) bool {
	until, ok := countedUntil(d)
	return !ok || until <= now
}

// Len returns how many decisions are held. Some of them may have ended since.
func (f *InForce) Len() int { return len(f.decisions) }

// Has reports whether a decision about the rule and caller is held.
func (f *InForce) Has(key Key) bool {
	_, ok := f.decisions[key]
	return ok
}

// Left returns how many decisions the current cycle must still repeat; 0 if none is under way.
func (f *InForce) Left() int { return len(f.cycle) }

// From returns the offset of decisions[p] where the last complete cycle began.
func (f *InForce) From() int64 { return f.from }

// Next returns the next n decisions of the cycle, as they are at now. It leaves out those that are no longer held.
func (f *InForce) Next(n int, now int64) (list []schemas.Decision) {
	for _, key := range f.cycle[:n] {
		d, ok := f.decisions[key]
		if !ok {
			continue
		}
		if d.Next.Until <= now {
			d.Next = schemas.Span{}
		}
		list = append(list, d)
	}
	return list
}

// Repeated removes the next n decisions from the cycle, after they were published.
func (f *InForce) Repeated(n int) {
	f.cycle = f.cycle[n:]
	if n > 0 && len(f.cycle) == 0 {
		f.from = f.began
	}
}

// BeginCycle starts to repeat the decisions in force at now, and forgets those that have ended. end is the end of decisions[p],
// where the cycle begins. If a cycle is not complete yet, it continues, and From does not change.
func (f *InForce) BeginCycle(now, end int64) {
	if len(f.cycle) > 0 {
		return
	}
	for key, d := range f.decisions {
		if ended(&d, now) {
			f.drop(key)
			continue
		}
		f.cycle = append(f.cycle, key)
	}
	f.began = end
	if len(f.cycle) == 0 {
		f.from = f.began
	}
}

// inForceShare bounds how many closures are repeated, as a share of fold.Options.MaxRows: one for each row, and an eighth more
// for callers that were displaced from theirs.
const inForceShare = 9.0 / 8

// bound forgets closures if there are too many: first those that have ended, then those that end first. It makes room for an
// eighth of the limit, so that the next search comes only after that many new closures. Gates keep the closures that they have
// received. Gates that start later do not learn of the forgotten ones.
func (f *InForce) bound(now int64) {
	limit := int(inForceShare*float64(f.maxRows)) + 1
	if len(f.decisions) <= limit {
		return
	}
	type closure struct {
		until int64
		key   Key
	}
	open := make([]closure, 0, len(f.decisions))
	for key, d := range f.decisions {
		until, _ := countedUntil(&d)
		if until <= now {
			f.drop(key)
			continue
		}
		open = append(open, closure{until, key})
	}
	keep := limit - limit/8
	if len(open) <= keep {
		return
	}
	slices.SortFunc(open, func(a, b closure) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.key.Rule, b.key.Rule),
			cmp.Compare(a.key.Caller.Kind, b.key.Caller.Kind), cmp.Compare(a.key.Caller.ID, b.key.Caller.ID))
	})
	for _, c := range open[:len(open)-keep] {
		f.drop(c.key)
	}
}

// Reconcile stores the counted closures when an owner takes a partition over. changes are the closures in force at now, and believed is
// what gates hold. For each caller that gates hold closed and that is not closed by count, it returns a decision that opens the caller.
// keep reports which of the decisions of gates stay in force instead.
//
// Only counted closures are compared. The predictions of the previous owner end by themselves. So Reconcile does not end them, and a
// closure that is repeated carries them.
func (f *InForce) Reconcile(believed map[Key]schemas.Decision, changes []fold.Change, now int64, keep func(*schemas.Decision) bool) (open []schemas.Decision) {
	for i := range changes {
		d := decisionOf(&changes[i])
		b, ok := believed[KeyOf(&d)]
		if ok && d.Next == (schemas.Span{}) && b.Next.Early && b.Next.Until > now {
			d.Next = b.Next
			d = separated(d)
		}
		if ok && b.Share != nil && b.Share.Until > now {
			d.Share = b.Share
		}
		f.put(KeyOf(&d), d)
	}
	for key, d := range believed {
		switch _, ok := f.decisions[key]; {
		case ok || d.Early || now >= d.Until:
		case keep(&d):
			f.put(key, d)
		default:
			d.Until, d.Next, d.Share = min(now, d.CloseAt), schemas.Span{}, nil
			open = append(open, d)
		}
	}
	f.bound(now)
	return open
}

// RuleMode is a rule by its name, and the mode in which it decided.
type RuleMode struct {
	Rule string
	Mode schemas.Mode
}

func ruleModeOf(d *schemas.Decision) RuleMode { return RuleMode{d.Rule, d.Mode} }

// tally counts the decisions that an InForce holds, by rule and mode. No count is 0.
type tally map[RuleMode]int

func (t tally) add(r RuleMode, n int) {
	if t[r] += n; t[r] == 0 {
		delete(t, r)
	}
}

// ByRule returns how many decisions are held, by rule and mode. No count is 0, and their sum is Len. The caller may keep the map.
func (f *InForce) ByRule() map[RuleMode]int { return maps.Clone(f.tally) }

// put stores a decision, in place of an older one.
func (f *InForce) put(key Key, d schemas.Decision) {
	old, ok := f.decisions[key]
	f.decisions[key] = d
	before, after := ruleModeOf(&old), ruleModeOf(&d)
	if ok && before == after {
		return
	}
	if ok {
		f.tally.add(before, -1)
	}
	f.tally.add(after, 1)
}

// drop forgets a decision, if it is held.
func (f *InForce) drop(key Key) {
	if d, ok := f.decisions[key]; ok {
		delete(f.decisions, key)
		f.tally.add(ruleModeOf(&d), -1)
	}
}

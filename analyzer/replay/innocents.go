package replay

import (
	"hash/maphash"
	"time"

	"github.com/kamstrup/intmap"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// innocents finds the callers that gates have closed although their rule, alone and without a lag, never closes them. Only predictions
// can do that: before a caller is closed because it was counted, the rule alone has closed it. Only enforcing rules matter. One
// goroutine uses an innocents.
type innocents struct {
	alone       *fold.Fold // the rules in mode shadow: each counts alone, and closes at once
	seed        maphash.Seed
	closedAlone *intmap.Set[uint64] // hashes of the rules and callers that alone has closed
	suspects    map[uint64]*record  // by the same hashes: those that gates have closed early, and were not in closedAlone before
	uncertain   bool                // there were more of either than are kept
}

// record is how long gates have closed one caller by one rule.
type record struct {
	spans    [2]schemas.Span // of the newest decision
	since    int64           // when that came into force
	from, to int64           // the newest time in which the caller was closed without a break
	longest  int64
	refused  int64 // requests, early
}

// Bounds of what is kept, at some 16 and 150 bytes each.
const (
	maxClosedAlone = 1 << 21
	maxSuspects    = 1 << 18
)

func newInnocents(set *rules.Set, maxRows int) innocents {
	return innocents{
		alone: fold.New(set.InShadow(), fold.Options{NoStore: true, MaxRows: maxRows}), seed: maphash.MakeSeed(),
		closedAlone: intmap.NewSet[uint64](1024), suspects: make(map[uint64]*record),
	}
}

// hash returns the hash of a rule and a caller. Two with one hash are taken for the same: see distinct.
func (n *innocents) hash(rule string, c *schemas.Caller) uint64 {
	var h maphash.Hash
	h.SetSeed(n.seed)
	_, _ = h.WriteString(rule) // never fails
	_ = h.WriteByte(0)
	_, _ = h.WriteString(c.ID) // of the rule's kind
	return h.Sum64()
}

// count lets the rules alone count an entry, whether gates have blocked it or not.
func (n *innocents) count(e *schemas.Entry) {
	own := *e
	own.Blocked, own.Early = false, false
	n.alone.Entry(&own)
	changes := n.alone.TakeChanges()
	for i := range changes {
		if c := &changes[i]; c.Kind != policy.Closed {
			continue
		} else if h := n.hash(c.Rule.Name, &c.Caller); n.closedAlone.Len() < maxClosedAlone || n.closedAlone.Has(h) {
			n.closedAlone.Add(h)
		} else {
			n.uncertain = true
		}
	}
}

// apply notes that a decision came into force at t.
func (n *innocents) apply(d *schemas.Decision, t int64) {
	if d.Mode != schemas.ModeEnforce {
		return
	}
	h := n.hash(d.Rule, &d.Caller)
	r := n.suspects[h]
	if r == nil {
		if !d.Early && !d.Next.Early || n.closedAlone.Has(h) {
			return
		}
		if len(n.suspects) >= maxSuspects && !n.dropClosedAlone() {
			n.uncertain = true
			return
		}
		r = &record{}
		n.suspects[h] = r
	}
	r.settle(t)
	r.spans, r.since = spansOf(d), t
}

// refuse notes that a request was blocked early at t.
func (n *innocents) refuse(c *schemas.Caller, t int64) {
	for _, r := range n.alone.Rules().ForKind(c.Kind) {
		if x := n.suspects[n.hash(r.Name, c)]; x != nil && (x.spans[0].Covers(t) || x.spans[1].Covers(t)) {
			x.refused++
		}
	}
}

// dropClosedAlone drops the suspects that the rules alone have closed as well, and reports whether there is room now.
func (n *innocents) dropClosedAlone() bool {
	for h := range n.suspects {
		if n.closedAlone.Has(h) {
			delete(n.suspects, h)
		}
	}
	return len(n.suspects) < maxSuspects
}

// settle notes what has been in force until t.
func (r *record) settle(t int64) {
	for _, s := range r.spans {
		from, to := max(s.CloseAt, r.since), min(s.Until, t)
		if from >= to {
			continue
		}
		if from > r.to {
			r.from = from
		}
		r.to = to
		r.longest = max(r.longest, r.to-r.from)
	}
}

// result sets what is known of innocents at the end, which is at t.
func (n *innocents) result(a *Accuracy, t int64) {
	n.dropClosedAlone()
	longest := int64(0)
	for _, r := range n.suspects {
		if r.refused == 0 {
			continue
		}
		r.settle(t)
		a.InnocentsClosed++
		a.InnocentRequests += r.refused
		longest = max(longest, r.longest)
	}
	a.InnocentLongest, a.InnocentUncertain = time.Duration(longest).Seconds(), n.uncertain
}

// spansOf returns the closures of a decision. The second one is empty if there is none.
func spansOf(d *schemas.Decision) [2]schemas.Span {
	return [2]schemas.Span{{CloseAt: d.CloseAt, Until: d.Until, Early: d.Early}, d.Next}
}

package fold

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// This file decides which callers get a row when the table is full.
//
// A table has MaxRows rows. Half of them are guaranteed: each rule has an equal part of that half, and may also use what other rules leave.
// As long as there is room, every caller gets a row with its first entry. When the table is full,
//
//  1. expired rows are dropped;
//  2. a rule that has less than its part takes a row from a rule that has more;
//  3. all other callers wait (see waiting.go), and are counted coarsely. From half of its limit on, a caller may take the row of another
//     one that is further from its own limit. At its limit it must get a row, because it must be closed.
//
// No caller is closed on an estimate. An offender stays open only while it finds no place in the waiting room.

// Shares of MaxRows and bounds on the work of one entry.
const (
	waitingShare = 3.0 / 8 // of MaxRows: so many callers may wait. Each takes 68 bytes: together as much memory as MaxRows/8 rows
	sweptRows    = 8       // rows that each entry checks for expiry when it finds the table full
	sweptWaiting = 2       // waiting callers that it checks for expiry
	candidates   = 32      // rows that are compared; the one that matters least is displaced
	tries        = 3 * candidates
	tryCost      = 16 // entries that must wait before a caller below its limit may search for a victim
	maxCredit    = 4 * tryCost
)

// newcomer is an entry of a caller that has no row.
type newcomer struct {
	r         *rules.Rule
	rule      int32
	hash      uint64
	id        string
	at        int64 // Unix nanoseconds
	limit     int64
	unlimited bool
	weight    int64

	waited bool // it was in the waiting room; table.scratch holds its coarse state until it has a row
	length int
}

// waitingUnits converts a weight for the waiting room, where callers of all rules are compared. Requests count as they are. A cost is
// scaled so that a limit is 100 units.
func waitingUnits(r *rules.Rule, capacity, weight int64) int64 {
	if r.Measure != rules.Cost {
		return weight
	}
	return max(1, int64(min(100, float64(weight)/float64(capacity)*100)))
}

// admit returns the index of a row for a newcomer, or false if it must wait; its weight is then noted as uncounted.
func (t *table) admit(n *newcomer) (uint32, bool) {
	if t.only != nil && !t.only(n.r, n.id) {
		t.losses.byRule[n.rule].uncounted += uint64(max(n.weight, 0))
		return 0, false
	}
	if t.used >= t.maxRows {
		t.sweep()
	}
	if t.used >= t.maxRows && !t.makeRoom(n) {
		return 0, false
	}
	i := t.add(n.hash, n.rule, strings.Clone(n.id))
	row := t.row(i)
	t.losses.byRule[n.rule].rows++
	t.rules.flagNew(row, n.r.Kind)
	if len(t.removed) > 0 {
		row.stored = t.removed.Take(AppendRowKey(nil, n.r.Name, n.r.Kind, n.id))
	}
	row.since = t.losses.since(n.rule, n.limit, n.at)
	t.takeFromWaiting(n)
	if n.waited {
		a := &t.losses.byRule[n.rule]
		s := window.State(t.scratch[:n.length])
		a.recovered += uint64(a.coarse.View(s, n.limit, t.now).Total) // ≥ 0
		row.set(a.coarse.Refine(s, n.limit, t.now))
		row.since = a.lost // that weight was lost when the caller sent it
	}
	return i, true
}

// takeFromWaiting takes a newcomer out of the waiting room, if it is there. It must be called before another caller comes in, which
// might take the newcomer's place.
func (t *table) takeFromWaiting(n *newcomer) {
	if w, ok := t.waiting.find(n.hash, n.rule); ok {
		n.waited, n.length = true, copy(t.scratch[:], t.waiting.callers[w].state())
		t.waiting.remove(w)
	}
}

// sweep checks the next rows in turn, and drops at once those that have expired.
func (t *table) sweep() {
	for range min(sweptRows, t.Made()) {
		if t.next >= t.Made() {
			t.next = 0
		}
		i := t.next
		t.next++
		if r := t.row(i); r.rule >= 0 && t.expires(r) <= t.now {
			t.dropExpired(i, r)
		}
	}
}

// dropExpired drops an expired row early: a late entry no longer finds it. Such an entry could have prolonged the row's closure.
func (t *table) dropExpired(i uint32, r *row) {
	a, at := &t.losses.byRule[r.rule], t.expires(r)
	if a.dropped < at {
		a.dropped = at
		t.losses.change(int32(r.rule))
	}
	if r.closure.Nth > 0 && a.lost < at {
		a.lost = at
		t.losses.change(int32(r.rule))
	}
	t.expired++
	t.drop(i, r)
	t.noteStaleBucket()
}

// makeRoom displaces a row for a newcomer, or lets it wait.
func (t *table) makeRoom(n *newcomer) bool {
	a := &t.losses.byRule[n.rule]
	if a.rows < t.guaranteed() {
		if i, ok := t.victim(displaceable{newcomer: -1, anyOpen: true}); ok {
			t.takeFromWaiting(n)
			t.displace(i)
			return true
		}
	}
	if n.unlimited || n.weight < 0 { // a request in flight has ended
		t.losses.lose(n.rule, n.weight, t.now)
		return false
	}
	t.waiting.sweep(sweptWaiting, t.waiterExpired)
	w, waits := t.waiting.find(n.hash, n.rule)
	s := t.scratch[:0]
	if waits {
		s = append(s, t.waiting.callers[w].state()...)
	}
	s, count := a.coarse.Add(s, n.limit, n.at, n.weight)
	if count.Place == window.Late {
		t.losses.lose(n.rule, n.weight, t.now) // the full window might have counted it
		return false
	}
	count = a.coarse.View(s, n.limit, t.now) // as of the newest entry: a late one closes no caller on weight that has left the window
	capacity := n.r.Window.Capacity(n.limit)
	if t.displaces(n, float64(count.Total)/float64(capacity), count.Full(t.now)) {
		return true
	}
	t.losses.lose(n.rule, n.weight, t.now)
	t.credit = min(t.credit+1, maxCredit)
	if units := waitingUnits(n.r, capacity, n.weight); waits {
		t.waiting.update(w, s, units)
	} else {
		t.waiting.add(n.hash, n.rule, s, units)
	}
	return false
}

// displaces displaces a row for a caller if the caller may or must have one. share is the part of its limit that the caller has surely
// sent, and full is whether its window is full.
func (t *table) displaces(n *newcomer, share float64, full bool) bool {
	v := displaceable{newcomer: n.rule, share: share, anyOpen: full, closed: full}
	if !full {
		if share < 0.5 || t.credit < tryCost {
			return false
		}
		t.credit -= tryCost
	}
	i, ok := t.victim(v)
	if ok {
		t.takeFromWaiting(n)
		t.displace(i)
	}
	return ok
}

// guaranteed returns how many rows each rule may have whatever the others do.
func (t *table) guaranteed() int { return t.maxRows / 2 / len(t.rules.set.Rules) }

func (t *table) waiterExpired(c *waiter) bool {
	return t.losses.byRule[c.rule].coarse.Expiry(c.state()) <= t.now
}

// displaceable says which rows a newcomer may displace. A row must be of the newcomer's own rule, or of a rule that has more than its
// guaranteed part.
type displaceable struct {
	newcomer int32   // its rule, or −1 if that rule is below its part and takes from others only
	share    float64 // of its limit that the newcomer has surely sent: it may displace open rows with a smaller share, …
	anyOpen  bool    // … or any open row
	closed   bool    // and closed rows: the newcomer itself must be closed
}

// rank returns how much a row matters now.
func (t *table) rank(r *row) policy.Rank {
	rule := t.rules.set.Rules[r.rule]
	limit, unlimited := t.rules.limitOf(rule, r)
	return policy.RankOf(rule, r.state, r.closure, limit, unlimited, t.now)
}

// victim draws some rows, and returns the one with the lowest rank, or false if v says that this one must keep its place.
func (t *table) victim(v displaceable) (uint32, bool) {
	worst, lowest := uint32(0), policy.Rank{Class: math.MaxUint8}
	for drawn, seen := 0, 0; drawn < tries && seen < candidates; drawn++ {
		i := t.draw()
		r := t.row(i)
		if r.rule < 0 || int32(r.rule) != v.newcomer && t.losses.byRule[r.rule].rows <= t.guaranteed() {
			continue
		}
		seen++
		if k := t.rank(r); k.Compare(lowest) < 0 {
			worst, lowest = i, k
		}
	}
	switch lowest.Class {
	case policy.RankExpired:
		return worst, true
	case policy.RankOpen:
		return worst, v.anyOpen || lowest.Share < v.share
	case policy.RankRemembering:
		return worst, v.anyOpen
	case policy.RankClosed:
		return worst, v.closed
	}
	return 0, false
}

// draw returns the index of a random row, in use or not. The sequence of draws is a function of what was folded.
func (t *table) draw() uint32 {
	return uint32(t.random.Next() % uint64(t.Made())) // < 2^32
}

// displace takes the row at index i from its caller. If the caller is open, it waits from then on, with a lower bound of its count. If it
// is closed, it stays closed, because gates and the publisher keep the decision.
func (t *table) displace(i uint32) {
	r := t.row(i)
	rule := int32(r.rule)
	if t.expires(r) <= t.now {
		t.dropExpired(i, r)
		return
	}
	def := t.rules.set.Rules[rule]
	limit, unlimited := t.rules.limitOf(def, r)
	count := def.Window.View(r.state, limit, t.now)
	t.displaced++
	t.losses.lose(rule, count.Total, t.now)
	if count.Total > 0 && !unlimited && !r.closure.ClosedAt(t.now) {
		if s := t.losses.byRule[rule].coarse.Coarsen(r.state, t.now); len(s) > 0 {
			t.waiting.add(rowHash(t.ids.hash(r.id), rule), rule, s, waitingUnits(def, def.Window.Capacity(limit), count.Total))
		}
	}
	t.drop(i, r)
	t.noteStaleBucket()
}

// trim displaces the rows of the lowest rank until there are at most MaxRows. A store or a snapshot may hold more. The caller must fill the
// wheel again after it.
func (t *table) trim() {
	surplus := t.used - t.maxRows
	if surplus <= 0 {
		return
	}
	type ranked struct {
		policy.Rank
		i uint32
	}
	rows := make([]ranked, 0, t.used)
	t.each(func(i uint32, r *row) bool {
		rows = append(rows, ranked{t.rank(r), i})
		return true
	})
	slices.SortFunc(rows, func(a, b ranked) int { return cmp.Or(a.Compare(b.Rank), cmp.Compare(a.i, b.i)) })
	for _, r := range rows[:surplus] {
		t.displace(r.i)
		t.staleBuckets = 0
	}
	t.compact()
}

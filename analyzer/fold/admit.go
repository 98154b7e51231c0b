package fold

import (
	"strings"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// This file decides which callers get a row when the table is full.
//
// There are MaxRows. Of half of them each rule is guaranteed an equal part; it may use what others leave. As long as there
// is room, every caller gets a row with its first entry. Where there is none,
//
//  1. expired rows go;
//  2. a rule that has less than its part takes a row of one that has more;
//  3. all other callers wait (see waiting.go), and are counted coarsely. From half of its limit on a caller may take the row
//     of one that is further from its own limit. At the limit it must have one, since it is to be closed.
//
// So no caller is closed on an estimate. An offender stays open only as long as it finds no place in the waiting room.

// Shares of MaxRows and bounds on the work of one entry.
const (
	waitingShare = 3.0 / 8 // of MaxRows: as many callers wait; with 68 bytes each they take as much as an eighth more rows
	sweptRows    = 8       // rows that each entry checks for expiry when it finds the table full
	sweptWaiting = 2       // waiting callers that it checks likewise
	candidates   = 32      // rows of which the one that matters least is displaced
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

	waited bool // with what lies in Fold.scratch until it has a row
	length int
}

// admit returns a row for a newcomer, or false if it has to wait; its weight is then noted as uncounted.
func (f *Fold) admit(n *newcomer) (uint32, bool) {
	if f.opts.Only != nil && !f.opts.Only(n.r, n.id) {
		f.accounts[n.rule].uncounted += uint64(n.weight) // > 0
		return 0, false
	}
	if f.table.used >= f.opts.MaxRows {
		f.sweep()
	}
	if f.table.used >= f.opts.MaxRows && !f.makeRoom(n) {
		return 0, false
	}
	i := f.table.insert(n.hash, n.rule, strings.Clone(n.id))
	row := f.table.row(i)
	f.accounts[n.rule].rows++
	f.flagNew(row, n.r.Kind)
	if len(f.removed) > 0 {
		row.stored = f.removed.Take(AppendRowKey(nil, n.r.Name, n.r.Kind, n.id))
	}
	row.since = f.lowerBoundSince(n.rule, n.limit, n.at)
	f.callIn(n)
	if n.waited {
		a := &f.accounts[n.rule]
		s := window.State(f.scratch[:n.length])
		a.recovered += uint64(a.coarse.View(s, n.limit, f.now).Total) // ≥ 0
		row.set(a.coarse.Refine(s, n.limit, f.now))
		row.since = a.lost // it was lost when the caller sent it
	}
	return i, true
}

// callIn takes a newcomer out of the waiting room, if it is there. It must be called before another caller comes in, which
// might take the newcomer's place.
func (f *Fold) callIn(n *newcomer) {
	if w, ok := f.waiting.find(n.hash, n.rule); ok {
		n.waited, n.length = true, copy(f.scratch[:], f.waiting.callers[w].state())
		f.waiting.remove(w)
	}
}

// sweep checks the next rows in turn, and drops at once those that have expired.
func (f *Fold) sweep() {
	for range min(sweptRows, f.table.Made()) {
		if f.next >= f.table.Made() {
			f.next = 0
		}
		i := f.next
		f.next++
		if r := f.table.row(i); r.rule >= 0 && f.expires(r) <= f.now {
			f.dropExpired(i, r)
		}
	}
}

// dropExpired drops an expired row early: a late entry no longer finds it. Such an entry could have prolonged the row's closure.
func (f *Fold) dropExpired(i uint32, r *row) {
	a, at := &f.accounts[r.rule], f.expires(r)
	if a.dropped < at {
		a.dropped = at
		f.lossChanged(int32(r.rule))
	}
	if r.closure.Nth > 0 && a.lost < at {
		a.lost = at
		f.lossChanged(int32(r.rule))
	}
	f.stats.Expired++
	f.drop(i, r)
	f.leaveBuckets()
}

// makeRoom displaces a row for a newcomer, or lets it wait.
func (f *Fold) makeRoom(n *newcomer) bool {
	a := &f.accounts[n.rule]
	if a.rows < f.guaranteed() {
		if i, ok := f.victim(victimOf{newcomer: -1, anyOpen: true}); ok {
			f.callIn(n)
			f.displace(i)
			return true
		}
	}
	if n.unlimited {
		f.lose(n.rule, n.weight)
		return false
	}
	f.waiting.sweep(sweptWaiting, f.waiterExpired)
	w, waits := f.waiting.find(n.hash, n.rule)
	s := f.scratch[:0]
	if waits {
		s = append(s, f.waiting.callers[w].state()...)
	}
	s, count := a.coarse.Add(s, n.limit, n.at, n.weight)
	if count.Place == window.Late {
		f.lose(n.rule, n.weight) // the full window might have counted it
		return false
	}
	count = a.coarse.View(s, n.limit, f.now) // as of the newest entry: a late one closes no caller on weight that has left the window
	capacity := n.r.Window.Capacity(n.limit)
	if f.displaces(n, float64(count.Total)/float64(capacity), count.Full(f.now)) {
		return true
	}
	f.lose(n.rule, n.weight)
	f.credit = min(f.credit+1, maxCredit)
	if units := units(n.r, capacity, n.weight); waits {
		f.waiting.update(w, s, units)
	} else {
		f.waiting.add(n.hash, n.rule, s, units)
	}
	return false
}

// displaces displaces a row for a caller that has surely sent a share of its limit, if it may or must have one.
func (f *Fold) displaces(n *newcomer, share float64, full bool) bool {
	v := victimOf{newcomer: n.rule, share: share, anyOpen: full, closed: full}
	if !full {
		if share < 0.5 || f.credit < tryCost {
			return false
		}
		f.credit -= tryCost
	}
	i, ok := f.victim(v)
	if ok {
		f.callIn(n)
		f.displace(i)
	}
	return ok
}

// guaranteed returns how many rows each rule may have whatever the others do.
func (f *Fold) guaranteed() int { return f.opts.MaxRows / 2 / len(f.set.Rules) }

// units is what weight counts in the waiting room, where rules of all measures stand side by side: requests, or of a cost
// so much that a limit is 100.
func units(r *rules.Rule, capacity, weight int64) int64 {
	if r.Measure != rules.Cost {
		return weight
	}
	return max(1, int64(min(100, float64(weight)/float64(capacity)*100)))
}

func (f *Fold) waiterExpired(c *waiter) bool {
	return f.accounts[c.rule].coarse.Expiry(c.state()) <= f.now
}

package fold

import (
	"cmp"
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/policy"
)

// victimOf says which rows a newcomer may displace: of rules that have more than their part, or of its own.
type victimOf struct {
	newcomer int32   // its rule, or −1 if that rule is below its part and takes from others only
	share    float64 // of its limit, which it has surely sent: open rows with a smaller share may go, …
	anyOpen  bool    // … or all open ones
	closed   bool    // and closed ones: the newcomer is to be closed itself
}

// rank returns how much a row matters now.
func (f *Fold) rank(r *row) policy.Rank {
	rule := f.set.Rules[r.rule]
	limit, unlimited := f.limitOf(rule, r)
	return policy.RankOf(rule, r.state, r.closure, limit, unlimited, f.now)
}

// victim draws some rows and returns the one with the lowest rank, if it may lose its place.
func (f *Fold) victim(v victimOf) (uint32, bool) {
	worst, lowest := uint32(0), policy.Rank{Class: math.MaxUint8}
	for drawn, seen := 0, 0; drawn < tries && seen < candidates; drawn++ {
		i := f.draw()
		r := f.table.row(i)
		if r.rule < 0 || int32(r.rule) != v.newcomer && f.accounts[r.rule].rows <= f.guaranteed() {
			continue
		}
		seen++
		if k := f.rank(r); k.Compare(lowest) < 0 {
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

// draw returns the index of a row, in use or not: a function of what was folded.
func (f *Fold) draw() uint32 {
	return uint32(f.random.Next() % uint64(f.table.Made())) // < 2^32
}

// displace takes the row at index i from its caller. An open caller waits from then on, with a lower bound of its count. A
// closed one stays closed: gates keep what they were sent, and so does the publisher.
func (f *Fold) displace(i uint32) {
	r := f.table.row(i)
	rule := int32(r.rule)
	if f.expires(r) <= f.now {
		f.dropExpired(i, r)
		return
	}
	def := f.set.Rules[rule]
	limit, unlimited := f.limitOf(def, r)
	count := def.Window.View(r.state, limit, f.now)
	f.stats.Displaced++
	f.lose(rule, count.Total)
	if count.Total > 0 && !unlimited && !r.closure.ClosedAt(f.now) {
		if s := f.accounts[rule].coarse.Coarsen(r.state, f.now); len(s) > 0 {
			f.waiting.add(rowHash(f.ids.hash(r.id), rule), rule, s, units(def, def.Window.Capacity(limit), count.Total))
		}
	}
	f.drop(i, r)
	f.leaveBuckets()
}

// leaveBuckets notes that a dropped row is still in its bucket of the wheel, which may be months away. Once there are half as
// many of them as rows, all buckets are filled anew.
func (f *Fold) leaveBuckets() {
	f.left++
	if f.left > f.opts.MaxRows/2 {
		f.reschedule()
	}
}

// reschedule puts each row into one bucket of the wheel, and awaits the end of each closure.
func (f *Fold) reschedule() {
	f.left = 0
	f.wheel = wheel{minute: f.wheel.minute, started: f.wheel.started}
	f.table.each(func(i uint32, r *row) bool {
		f.wheel.schedule(i, f.expiry(r))
		return true
	})
	f.awaitEnds()
}

// trim displaces the rows of the lowest rank until there are at most MaxRows: a store or a snapshot may hold more. The
// caller must fill the wheel again after it.
func (f *Fold) trim() {
	surplus := f.table.used - f.opts.MaxRows
	if surplus <= 0 {
		return
	}
	type ranked struct {
		policy.Rank
		i uint32
	}
	rows := make([]ranked, 0, f.table.used)
	f.table.each(func(i uint32, r *row) bool {
		rows = append(rows, ranked{f.rank(r), i})
		return true
	})
	slices.SortFunc(rows, func(a, b ranked) int { return cmp.Or(a.Compare(b.Rank), cmp.Compare(a.i, b.i)) })
	for _, r := range rows[:surplus] {
		f.displace(r.i)
		f.left = 0
	}
	f.compact()
}

// compact moves the rows together, so that draws find rows in use. The caller must fill the wheel again after it.
func (f *Fold) compact() {
	old, beside := f.table, f.asides()
	f.table, f.dirty, f.next = table{}, nil, 0
	old.each(func(from uint32, r *row) bool {
		i := f.table.insert(rowHash(f.ids.hash(r.id), int32(r.rule)), int32(r.rule), r.id)
		to := f.table.row(i)
		to.flag(hasRecords, r.beside&hasRecords != 0)
		to.set(r.state)
		to.closure, to.since = r.closure, r.since
		f.adopt(i, from, r, &beside, true)
		if to.stored = r.stored; r.dirty {
			f.markDirty(i, to)
		}
		return true
	})
}

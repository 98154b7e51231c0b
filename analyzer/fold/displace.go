package fold

import (
	"cmp"
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/policy"
)

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

// noteStaleBucket notes that a dropped row is still in its bucket of the wheel, whose time may be months ahead. When more than MaxRows/2
// such rows are left, it fills all buckets again.
func (t *table) noteStaleBucket() {
	t.staleBuckets++
	if t.staleBuckets > t.maxRows/2 {
		t.reschedule()
	}
}

// reschedule puts each row into exactly one bucket of the wheel, and lists the ends of all closures again.
func (t *table) reschedule() {
	t.staleBuckets = 0
	t.wheel.clear()
	t.each(func(i uint32, r *row) bool {
		t.wheel.schedule(i, t.expiry(r))
		return true
	})
	t.awaitEnds()
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

// compact renumbers the rows without gaps, so that draws find rows in use. The caller must fill the wheel again after it.
func (t *table) compact() {
	old := t.takeAway()
	old.rows.each(func(from uint32, r *row) bool {
		i := t.add(rowHash(t.ids.hash(r.id), int32(r.rule)), int32(r.rule), r.id)
		to := t.row(i)
		to.flag(hasRecords, r.flags&hasRecords != 0)
		to.set(r.state)
		to.closure, to.since = r.closure, r.since
		t.adopt(i, from, r, &old, true)
		if to.stored = r.stored; r.dirty {
			t.markDirty(i, to)
		}
		return true
	})
}

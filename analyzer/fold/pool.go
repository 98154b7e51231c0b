package fold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// This file counts for rules with a capacity that all their callers share: pools. See package pool for what tallies and levels are. All
// of it goes by log time: an entry that is older than others counts now.

// poolState is what the fold keeps of one pool as a whole.
type poolState struct {
	rule   int32
	terms  *rules.Pool
	window window.Pool

	asked   window.State // what all callers of this partition asked for, also those without a row
	levelAt int64        // log time at which the level came
	home    pool.Home    // empty unless this partition is the pool's home

	above map[uint32]struct{} // rows that may ask for as much as is protected, or more: those that a tally lists

	dirty  bool   // changed since the last checkpoint
	stored uint64 // rows.Sum of the row as last committed; 0 if it never was
}

// pools is the pools of all rules that have one, by their Index. Their levels are in inForce, because they are limits.
type pools struct {
	list    []poolState
	turn    int64             // log time at which the next quarter of any pool is over
	tallies []PoolTally       // that the owner must send
	levels  []PoolLevel       // likewise
	dropped map[string]uint64 // tallies and levels that were not folded, by reason
}

// PoolTally is what the callers of this partition asked for, for the pool's home.
type PoolTally struct {
	Rule  *rules.Rule
	Tally pool.Tally
	At    int64 // log time, in Unix nanoseconds
}

// PoolLevel is what callers of a pool may use, for all partitions. Only the pool's home makes it.
type PoolLevel struct {
	Rule  *rules.Rule
	Level pool.Level
	At    int64 // log time, in Unix nanoseconds
}

// TakePools returns what was made for other partitions since it was last called: it goes into requests[p] by the pool's home, and by each
// partition. Only the newest of each pool counts.
func (f *Fold) TakePools() (tallies []PoolTally, levels []PoolLevel) {
	tallies, levels = f.pools.tallies, f.pools.levels
	f.pools.tallies, f.pools.levels = nil, nil
	return tallies, levels
}

// LoopPools folds the tallies and levels that the fold has made, as if they came back through the log at once. It is for a fold that counts a
// whole log alone, in one partition.
func (f *Fold) LoopPools() {
	for len(f.pools.tallies)+len(f.pools.levels) > 0 {
		tallies, levels := f.TakePools()
		for i := range tallies {
			e := tallies[i].Entry(0)
			f.poolEntry(&e)
		}
		for i := range levels {
			e := levels[i].Entry(levels[i].Rule.Name)
			f.poolEntry(&e)
		}
	}
}

// usePools makes the pools of the rules in force, which have counted nothing.
func (f *Fold) usePools() {
	pools := f.rules.set.Pools()
	f.pools.list, f.rules.levels = make([]poolState, len(pools)), make([]pool.Level, len(pools))
	for i, r := range pools {
		w, _ := r.Window.(window.Pool) // a pool has no other window
		f.pools.list[i] = poolState{rule: f.rules.index(r.Name), terms: r.Pool, window: w, above: make(map[uint32]struct{})}
	}
	f.pools.setTurn(f.table.now)
}

// movePools makes the pools of new rules. Pools that go on keep their state: moved[i] is the new index of old rule i, or −1.
func (f *Fold) movePools(before *rules.Set, moved []int32) {
	old, levels := f.pools.list, f.rules.levels
	f.usePools()
	for i := range old {
		o := &old[i]
		to := moved[o.rule]
		if to < 0 {
			f.table.removed.Add(poolKey(before.Rules[o.rule]), o.stored)
			continue
		}
		n := f.rules.set.Rules[to].Pool.Index
		p := &f.pools.list[n]
		p.asked, p.levelAt, p.home, p.stored, p.dirty = o.asked, o.levelAt, o.home, o.stored, o.dirty
		f.rules.levels[n] = levels[i]
	}
}

// setTurn finds the end of the first quarter that is over after a log time.
func (p *pools) setTurn(now int64) {
	p.turn = math.MaxInt64
	for i := range p.list {
		q := p.list[i].window.Quarter()
		if next := integer.FloorDiv(now, q) + 1; next <= math.MaxInt64/q {
			p.turn = min(p.turn, next*q)
		}
	}
}

// countPool adds an entry to a rule with a capacity. A blocked one is demand if the pool's own closure blocked it.
func (f *Fold) countPool(r *rules.Rule, rule int32, e *schemas.Entry, hash uint64) {
	i, known := f.table.find(hash, rule, e.ID)
	covered := known && f.table.row(i).closure.ClosedAt(e.Time)
	blocked, wouldBlock := e.Blocked, r.Mode == schemas.ModeShadow && covered
	if f.rules.onTrial(rule) {
		blocked = wouldBlock
	}
	f.counters[rule].countRequests(r.Mode, uint64(e.Count), blocked, wouldBlock)
	if blocked && !covered {
		return
	}
	p, now, weight := &f.pools.list[r.Pool.Index], f.table.now, int64(e.Count)
	p.asked = p.window.Ask(p.asked, now, weight)
	p.dirty = !f.opts.NoStore
	share := f.rules.fairShare(f.recordsOfEntry(r, i, known, e.ID), r, e.ID)
	limit, unlimited := limitOfShare(r, share)
	if !known {
		n := newcomer{r: r, rule: rule, hash: hash, id: e.ID, at: now, limit: limit, unlimited: unlimited, weight: weight}
		var admitted bool
		if i, admitted = f.table.admit(&n); !admitted {
			return
		}
	}
	row := f.table.row(i)
	if row.since != never && !row.keepsMark(r, limit, now) {
		row.since = never
	}
	if blocked {
		row.state = p.window.Ask(row.state, now, weight)
	} else {
		row.state = p.window.Spend(row.state, share, now, weight)
	}
	if !known {
		f.table.wheel.schedule(i, f.table.expiry(row))
	}
	f.table.markDirty(i, row)
	count := p.window.View(row.state, limit, now)
	if atLeast(count.Total, p.terms.Protect) && !atLeast(count.Total-weight, p.terms.Protect) {
		p.above[i] = struct{}{}
	}
	if !blocked && !unlimited && !row.staysOpen(count, now) {
		f.stepPool(r, i, row, count, limit)
	}
}

// atLeast reports whether requests are as many as a level of Units allows, or more.
func atLeast(requests, level int64) bool { return integer.MulDiv(requests, pool.Unit, 1) >= level }

// stepPool lets the policy decide at log time.
func (f *Fold) stepPool(r *rules.Rule, i uint32, row *row, count window.Count, limit int64) {
	before, now := row.closure, f.table.now
	closure, change, goesOn := policy.StepPool(r, before, now, count)
	row.closure = closure
	if change != policy.Same {
		f.changed(Change{
			Rule: r, Caller: schemas.Caller{Kind: r.Kind, ID: row.id}, Kind: change, GoesOn: goesOn,
			Before: before, Closure: closure, Count: count, Limit: limit, At: now, Offset: f.offset,
		}, i, row)
	}
}

// turnPools ends the quarters that are over at log time: it makes tallies, and at a pool's home the level, if it is still to be made. before
// is log time before it moved.
func (f *Fold) turnPools(before int64) {
	for i := range f.pools.list {
		p := &f.pools.list[i]
		q := p.window.Quarter()
		last, ended := integer.FloorDiv(before, q)-1, integer.FloorDiv(f.table.now, q)-1
		if ended == last {
			continue
		}
		if t := f.tally(p, ended); t.Total > 0 || p.window.Asked(p.asked, last) > 0 {
			f.pools.tallies = append(f.pools.tallies, PoolTally{f.rules.set.Rules[p.rule], t, f.table.now})
		}
		if level := &f.rules.levels[i]; level.Level > 0 && f.table.now-p.levelAt >= pool.Holds {
			*level = pool.Level{Quarter: level.Quarter}
			p.dirty = !f.opts.NoStore
			f.endLevel(p)
		}
		f.makeLevel(p)
	}
	f.pools.setTurn(f.table.now)
}

// tally returns what the callers of this partition asked for in the window that ends with a quarter.
func (f *Fold) tally(p *poolState, quarter int64) pool.Tally {
	t := pool.Tally{Quarter: quarter, Total: p.window.Asked(p.asked, quarter)}
	for i := range p.above {
		row := f.table.row(i)
		if int32(row.rule) != p.rule {
			delete(p.above, i)
			continue
		}
		asked := p.window.Asked(row.state, quarter)
		if !atLeast(asked, p.terms.Protect) {
			delete(p.above, i)
			continue
		}
		t.Add(&p.terms.Terms, asked, p.terms.Weight(row.id))
	}
	return t
}

// findAbove finds the rows that tallies may list, after all rows have moved.
func (f *Fold) findAbove() {
	if len(f.pools.list) == 0 {
		return
	}
	for i := range f.pools.list {
		clear(f.pools.list[i].above)
	}
	f.table.each(func(i uint32, r *row) bool {
		f.noteAbove(i, r)
		return true
	})
}

// noteAbove notes that tallies may list a row, if it is one of a pool and large enough.
func (f *Fold) noteAbove(i uint32, r *row) {
	rule := f.rules.set.Rules[r.rule]
	if rule.Pool == nil || len(r.state) == 0 {
		return
	}
	p := &f.pools.list[rule.Pool.Index]
	if atLeast(p.window.View(r.state, 0, p.window.Newest(r.state)).Total, p.terms.Protect) {
		p.above[i] = struct{}{}
	}
}

// makeLevel makes the next level of a pool, if this partition is its home and it is time for it.
func (f *Fold) makeLevel(p *poolState) {
	if len(p.home.Tallies) == 0 {
		return
	}
	before := p.home.Level.Asked
	made, send := p.home.Next(&p.terms.Terms, integer.FloorDiv(f.table.now, p.window.Quarter())-1, f.table.now)
	if !made {
		return
	}
	p.dirty = !f.opts.NoStore
	r := f.rules.set.Rules[p.rule]
	if send {
		f.pools.levels = append(f.pools.levels, PoolLevel{r, p.home.Level, f.table.now})
	}
	f.warnPool(p, r, before)
}

// warnPool reports the highest share of the capacity that demand has crossed.
func (f *Fold) warnPool(p *poolState, r *rules.Rule, before int64) {
	count := window.Count{Total: p.home.Level.Asked, Until: f.table.now}
	count.Start = p.window.View(nil, 0, f.table.now).Start
	share := policy.Warning(r, r.Limit, count, count.Total-before)
	if share == 0 {
		return
	}
	f.stats.Warnings++
	f.counters[p.rule].tally(r.Mode).Warnings++
	f.changes = append(f.changes, Change{
		Rule: r, Caller: schemas.Caller{Kind: r.Kind, ID: AllCallers}, Warn: share, Count: count, Limit: r.Limit, At: f.table.now, Offset: f.offset,
	})
}

// AllCallers is the id in a warning about all callers of a pool together.
const AllCallers = "*"

// beginLevel charges callers for what they asked for over their share before there was a level, so that a flood is held at once.
func (f *Fold) beginLevel(p *poolState) {
	r := f.rules.set.Rules[p.rule]
	for i := range p.above {
		if row := f.table.row(i); int32(row.rule) == p.rule {
			p.window.Charge(row.state, f.rules.fairShare(f.rules.recordsOf(r, row), r, row.id), f.table.now, f.opts.Key.Hash(r.Kind, row.id))
			f.table.markDirty(i, row)
		}
	}
}

// endLevel opens the callers that a pool has closed, because its level has ended.
func (f *Fold) endLevel(p *poolState) {
	r, first := f.rules.set.Rules[p.rule], len(f.changes)
	f.table.each(func(i uint32, row *row) bool {
		if int32(row.rule) != p.rule || !row.closure.ClosedAt(f.table.now) {
			return true
		}
		limit, unlimited := f.rules.limitOf(r, row)
		closure, change := policy.Derive(r, limit, unlimited, false, row.closure, nil, f.table.now, p.window.View(row.state, limit, f.table.now))
		if change != policy.Same {
			row.closure = closure
			f.table.markDirty(i, row)
			f.reportDerived(r, row, change)
		}
		return true
	})
	sortChanges(f.changes[first:])
}

package fold

import (
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store/rows"
)

// PoolLook is what a fold knows of the pool of a rule with a capacity, and of one caller's part in it.
type PoolLook struct {
	Level    pool.Level // that limits the caller. Its Level is 0 if none does
	Asked    int64      // requests that callers asked for together in a window
	Whole    bool       // Asked is of all callers; else of those of this partition: without a level, only the pool's home knows more
	Weight   int64      // of the caller, in pool.Units
	WeightOf string     // the id or the network of the rule's weight that applies to the caller; empty if there is none
}

// lookPool notes what is known of the pool of a rule with a capacity. A level that is over at now limits nobody, though only the next entry
// ends it.
func (v View) lookPool(l *RuleLook, id string, now int64) {
	r := l.Rule
	p := &v.pools.list[r.Pool.Index]
	look := &PoolLook{Level: v.rules.levels[r.Pool.Index], Weight: r.Pool.Weight(id), WeightOf: r.Pool.WeightOf(id)}
	if v.levelOver(r, now) {
		look.Level.Level = 0
		if l.LimitBy == nil {
			l.Limit, l.Unlimited = LimitFor(r, id)
		}
	}
	quarter := integer.FloorDiv(now-pool.Holds, p.window.Quarter())
	switch home := &p.home.Level; {
	case look.Level.Level > 0:
		look.Asked, look.Whole = look.Level.Asked, true
	case home.Quarter > quarter:
		look.Asked, look.Whole = home.Asked, true
	default:
		look.Asked = p.window.View(p.asked, 0, now).Total
	}
	l.Pool = look
}

// levelOver reports whether the level of a rule's pool is over at a time, though no entry has ended it yet.
func (v View) levelOver(r *rules.Rule, now int64) bool {
	i := r.Pool.Index
	return v.rules.levels[i].Level > 0 && now-v.pools.list[i].levelAt >= pool.Holds
}

// draftPool returns the row of a rule's pool for a Draft: the level, and what the callers of this partition asked for.
func (v View) draftPool(r *rules.Rule) rows.Change {
	p := v.pools.list[r.Pool.Index]
	p.home = pool.Home{}
	return rows.Change{Key: poolKey(r), Value: v.rules.poolValue(&p)}
}

// PoolStats is what a pool's home knows of all its callers.
type PoolStats struct {
	Rule      string
	Capacity  int64
	Level     pool.Level // the newest
	Protected bool       // the level is as low as the rule allows
	TallyAge  int64      // log time since the oldest of the partitions' newest tallies whose callers asked for anything; 0 if there is none
}

// poolStats returns the pools whose home this partition is.
func (f *Fold) poolStats() (list []PoolStats) {
	for i := range f.pools.list {
		p := &f.pools.list[i]
		r := f.rules.set.Rules[p.rule]
		if PoolHome(f.opts.Key, r.Name, f.opts.Partitions) != f.opts.Partition {
			continue
		}
		s := PoolStats{Rule: r.Name, Capacity: p.terms.Capacity, Level: p.home.Level}
		s.Protected = s.Level.Level > 0 && s.Level.Level <= p.terms.Protect
		if at, ok := p.home.Oldest(); ok {
			s.TallyAge = f.table.now - at
		}
		list = append(list, s)
	}
	return list
}

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
	if look.Level.Level > 0 && now-p.levelAt >= pool.Holds {
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

// draftPool returns the row of a rule's pool for a Draft: the level, and what the callers of this partition asked for.
func (v View) draftPool(r *rules.Rule) rows.Change {
	p := v.pools.list[r.Pool.Index]
	p.home = pool.Home{}
	return rows.Change{Key: poolKey(r), Value: v.rules.poolValue(&p)}
}

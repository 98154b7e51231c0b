package analyzer

import (
	"math"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// Defaults of FoldOptions.
const (
	DefaultMaxRows    = 250_000
	DefaultMaxSenders = 100_000
)

// FoldOptions configures a Fold. The zero value is one partition, the public key, and default bounds.
type FoldOptions struct {
	Key        schemas.PartitionKey   // zero: schemas.DefaultPartitionKey
	Partition  int                    // the one whose frames are folded
	Partitions int                    // 0 is 1
	MaxRows    int                    // rules × callers kept; 0 is DefaultMaxRows. Beyond it only new callers that are heavy are counted
	MaxSenders int                    // producers and sources remembered; 0 is DefaultMaxSenders
	NoStore    bool                   // nothing will be committed: TakeDirty has nothing to give
	Each       func(e *schemas.Entry) // called with each entry of a frame that is counted, in log order; nil is nobody
}

// Change is what the fold of one entry did to one rule and caller, where anybody would notice.
type Change struct {
	Rule    *rules.Rule
	Caller  schemas.Caller
	Kind    policy.Change  // Same for a warning
	Warn    float64        // the share of the limit that was crossed, or 0
	Before  policy.Closure // what it was before: the close before this one, with its final peak
	Closure policy.Closure
	Count   window.Count
	Limit   int64 // as it applies to this caller
	At      int64 // Unix nanoseconds: the entry's time
	Offset  int64 // of the record whose entry this was
}

// Fold applies entries to the windows of all rules in log order. It does no I/O and knows no clock: what it holds is a
// function of the rules and of what it was given, so that two folds over one log agree. One goroutine may use a Fold.
type Fold struct {
	opts        FoldOptions
	fingerprint uint64
	set         *rules.Set
	kinds       []kindRules
	table       table
	dedupe      *dedupe
	wheel       wheel
	heavy       heavy
	now         int64 // log time: the newest entry's, in Unix nanoseconds
	offset      int64 // of the record being folded
	frame       schemas.Frame
	changes     []Change
	canaries    []schemas.Entry
	dirty       []uint32
	removed     removals
	scan        *scan // the pass over the rows that is under way, or nil
	stats       FoldStats
}

// kindRules is the rules that count one kind of caller, by index.
type kindRules struct {
	kind  string
	rules []int32
}

// NewFold returns a fold that has counted nothing.
func NewFold(set *rules.Set, o FoldOptions) *Fold {
	if o.Key == (schemas.PartitionKey{}) {
		o.Key = schemas.DefaultPartitionKey()
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.MaxRows == 0 {
		o.MaxRows = DefaultMaxRows
	}
	if o.MaxSenders == 0 {
		o.MaxSenders = DefaultMaxSenders
	}
	f := &Fold{
		opts: o, fingerprint: o.Key.Fingerprint(), dedupe: newDedupe(o.MaxSenders),
		now: math.MinInt64, removed: make(removals), stats: FoldStats{Rejected: make(map[string]uint64)},
	}
	f.setRules(set)
	return f
}

func (f *Fold) setRules(set *rules.Set) {
	f.set, f.kinds = set, nil
	for i, r := range set.Rules {
		k := 0
		for k < len(f.kinds) && f.kinds[k].kind != r.Kind {
			k++
		}
		if k == len(f.kinds) {
			f.kinds = append(f.kinds, kindRules{kind: r.Kind})
		}
		f.kinds[k].rules = append(f.kinds[k].rules, int32(i))
	}
}

// Entry folds one entry. What it changed is added to what TakeChanges returns.
func (f *Fold) Entry(e *schemas.Entry) {
	f.entry(e, f.opts.Key.Hash(e.Kind, e.ID))
}

func (f *Fold) entry(e *schemas.Entry, hash uint64) {
	f.advance(e.Time)
	f.stats.Entries++
	f.stats.Requests += uint64(e.Count)
	for k := range f.kinds {
		if f.kinds[k].kind != e.Kind {
			continue
		}
		for _, i := range f.kinds[k].rules {
			if r := f.set.Rules[i]; r.Matches(e) {
				f.count(r, i, e, hash)
			}
		}
		return
	}
}

// count adds the entry to the window of one rule.
func (f *Fold) count(r *rules.Rule, rule int32, e *schemas.Entry, caller uint64) {
	hash := rowHash(caller, rule)
	blocked := e.Blocked
	if r.Mode == schemas.ModeShadow {
		blocked = f.shadowed(hash, rule, e)
	}
	weight := r.Weight(e, blocked)
	if weight == 0 {
		return
	}
	i, ok := f.table.find(hash, rule, e.ID)
	if !ok {
		if !f.admits(hash, e) {
			f.stats.Uncounted += uint64(weight)
			return
		}
		i = f.table.insert(hash, rule, strings.Clone(e.ID))
	}
	row := f.table.row(i)
	if !ok && len(f.removed) > 0 {
		row.stored = f.removed.take(appendRowKey(nil, r.Name, r.Kind, e.ID))
	}
	limit, unlimited := limitFor(r, e.ID)
	state, count := r.Window.Add(row.state, limit, e.Time, weight)
	if count.Late {
		f.stats.Late += uint64(weight)
		return
	}
	row.state = state
	f.markDirty(i, row)
	if !ok {
		f.wheel.schedule(i, f.expiry(row))
	}
	if unlimited {
		return
	}
	f.warn(r, row, e, count, limit, weight)
	f.step(r, row, e, count, limit, weight)
}

// shadowed reports whether the entry would have been blocked if its rule, which is in shadow mode, were enforced and the
// only one: whether the rule's own closure holds. So a shadow rule counts as if alone (ARCHITECTURE.md §4), at a lag of
// nothing. An entry that merges requests from before and after its own close counts whole: for shadow rules, merged and
// unmerged logs need not agree.
func (f *Fold) shadowed(hash uint64, rule int32, e *schemas.Entry) bool {
	i, ok := f.table.find(hash, rule, e.ID)
	return ok && f.table.row(i).closure.ClosedAt(e.Time)
}

// step lets the policy decide on what was counted.
func (f *Fold) step(r *rules.Rule, row *row, e *schemas.Entry, count window.Count, limit, weight int64) {
	before := row.closure
	if before.ClosedAt(e.Time) && r.Window.Name() == window.NameLog {
		count.Total = max(count.Total, before.Peak+weight) // a log forgets what is over the limit; its overshoot must not
	}
	closure, change := policy.Step(r, before, e.Time, count)
	row.closure = closure
	if closure.Nth > 0 && e.Time < closure.Until {
		f.stats.Overshoot = max(f.stats.Overshoot, closure.Overshoot(r, limit))
	}
	if change == policy.Same {
		return
	}
	if change == policy.Closed {
		f.stats.Closes++
	}
	f.changes = append(f.changes, Change{
		Rule: r, Caller: schemas.Caller{Kind: r.Kind, ID: row.id}, Kind: change,
		Before: before, Closure: closure, Count: count, Limit: limit, At: e.Time, Offset: f.offset,
	})
}

// warn reports the highest share of the limit that this entry's weight crossed.
func (f *Fold) warn(r *rules.Rule, row *row, e *schemas.Entry, count window.Count, limit, weight int64) {
	share := policy.Warning(r, limit, count, weight)
	if share == 0 {
		return
	}
	f.stats.Warnings++
	f.changes = append(f.changes, Change{
		Rule: r, Caller: schemas.Caller{Kind: r.Kind, ID: row.id}, Warn: share,
		Closure: row.closure, Count: count, Limit: limit, At: e.Time, Offset: f.offset,
	})
}

// limitFor returns the limit that a caller is counted under, and whether none is enforced. A caller without a limit is
// counted under the rule's own, so that its counts mean something when a limit comes.
func limitFor(r *rules.Rule, id string) (limit int64, unlimited bool) {
	limit, unlimited = r.LimitFor(id)
	if unlimited {
		limit = r.Limit
	}
	return limit, unlimited
}

// TakeChanges returns the changes since it was last called, in log order. The slice is good until the next entry.
func (f *Fold) TakeChanges() []Change {
	changes := f.changes
	f.changes = f.changes[:0]
	return changes
}

// LogTime returns the newest time folded, in Unix nanoseconds; math.MinInt64 if there was none.
func (f *Fold) LogTime() int64 { return f.now }

// Rules returns the rules that the fold counts by.
func (f *Fold) Rules() *rules.Set { return f.set }

// Stats returns a copy of the counters since the Fold was made.
func (f *Fold) Stats() FoldStats { return f.stats.clone(f) }

// markDirty puts a row on the list of the next checkpoint.
func (f *Fold) markDirty(i uint32, r *row) {
	if !r.dirty && !f.opts.NoStore {
		r.dirty = true
		f.dirty = append(f.dirty, i)
	}
}

// expirySlack is how long a row is kept after nothing depends on it any more: entries that come late by less still find
// it, and are told late from new.
const expirySlack = 10 * time.Minute

// expiry returns the log time at which a row is dropped.
func (f *Fold) expiry(r *row) int64 {
	rule := f.set.Rules[r.rule]
	at := max(rule.Window.Expiry(r.state), r.closure.Expiry(rule))
	if at > math.MaxInt64-int64(expirySlack) {
		return math.MaxInt64
	}
	return at + int64(expirySlack)
}

// advance moves log time forward, and drops what has expired at each full minute.
func (f *Fold) advance(t int64) {
	if t <= f.now {
		return
	}
	f.now = t
	due, turned := f.wheel.turn(t)
	if !turned {
		return
	}
	for _, i := range due {
		r := f.table.row(i)
		if r.rule < 0 {
			continue // a snapshot said that it had gone
		}
		if at := f.expiry(r); !f.wheel.passed(at) {
			f.wheel.schedule(i, at)
			continue
		}
		f.drop(i, r)
		f.stats.Expired++
	}
	f.dedupe.expire(t)
}

// drop removes a row that is in no bucket of the wheel.
func (f *Fold) drop(i uint32, r *row) {
	f.went(i, r)
	f.removed.add(appendRowKey(nil, f.set.Rules[r.rule].Name, f.set.Rules[r.rule].Kind, r.id), r.stored)
	f.table.remove(i)
}

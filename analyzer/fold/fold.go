package fold

import (
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/busiest"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// Defaults of Options.
const (
	DefaultMaxRows    = 250_000
	DefaultMaxSenders = 100_000
)

// Options configures a Fold. The zero value is one partition, the public key, and default bounds.
type Options struct {
	Key        schemas.PartitionKey   // zero: schemas.DefaultPartitionKey
	Partition  int                    // the one whose frames are folded
	Partitions int                    // 0 is 1
	MaxRows    int                    // rules × callers with an exact count; 0 is DefaultMaxRows. See admit.go for what happens beyond
	MaxSenders int                    // producers and sources remembered; 0 is DefaultMaxSenders
	NoStore    bool                   // nothing will be committed: TakeDirty has nothing to give
	Ends       bool                   // report closures that end by log time as changes: see Change.Ended. The counts are the same
	Busiest    bool                   // sample the busiest callers: see Busiest. The counts are the same
	Each       func(e *schemas.Entry) // called with each entry of a frame that is counted, in log order; may be nil
	// Ahead is called with each frame that is folded and that its producer made later than its message's time, by so much: one of
	// their clocks is wrong. It may be nil.
	Ahead func(producer schemas.ProducerID, by time.Duration)

	// Predict is the most that any rule predicts. The zero value is off: TakePlans has nothing to give then, and the counts,
	// closures and rows are the same.
	Predict rules.Predict
	// PredictLagCap is the largest lag at which closes are predicted, as a share of the window; 0 is predict.DefaultLagCap.
	PredictLagCap float64

	// Only says which callers are counted by a rule, for an audit; nil counts all.
	Only func(r *rules.Rule, id string) bool
}

// Fold applies entries to the windows of all rules in log order. It does no I/O and knows no clock: what it holds is a
// function of the rules and of what it was given, so that two folds over one log agree. One goroutine may use a Fold.
type Fold struct {
	opts        Options
	fingerprint uint64
	file        *rules.Set // as they were given; set is what they are in the modes of control records
	set         *rules.Set
	kinds       []kindRules
	accounts    []account // by rule
	ids         idHasher
	table       table
	dedupe      *dedupe
	wheel       wheel
	waiting     *waiting
	moves       uint64                  // how often all rows have moved to another table
	next        uint32                  // the row that sweep looks at next
	left        int                     // rows that were dropped and are still in a bucket of the wheel
	credit      int                     // what may be spent on looking for victims (see admit.go)
	random      integer.Random          // of draw
	scratch     [window.MaxCoarse]int64 // a coarse state that is not kept yet
	now         int64                   // log time: the newest entry's, in Unix nanoseconds
	offset      int64                   // of the record being folded
	frame       schemas.Frame
	changes     []Change
	canaries    []schemas.Entry
	dirty       []uint32
	losses      []int32 // rules whose losses changed since they were last handed to a checkpoint
	removed     rows.Removed
	scan        *Scan // the pass over the rows that is under way, or nil
	stats       Stats
	busiest     busiest.Callers
	records     *override.Records

	earlyWeights map[*row]*earlyWeight     // by row, where gates have blocked requests early of late
	steps        map[*row][]policy.Closure // by row, where its closure is not the first in a row: see policy.Steps
	predict      *predict.Predictor
	sourced      bool // the frame being folded is of a source
	ends         ends
	filled       window.State // of policy.Fill
}

// kindRules is the rules that count one kind of caller, by index.
type kindRules struct {
	kind  string
	rules []int32
}

// New returns a fold that has counted nothing.
func New(set *rules.Set, o Options) *Fold {
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
	if o.PredictLagCap == 0 {
		o.PredictLagCap = predict.DefaultLagCap
	}
	f := &Fold{
		opts: o, fingerprint: o.Key.Fingerprint(), dedupe: newDedupe(o.MaxSenders), ids: newIDHasher(),
		waiting: newWaiting(max(1, int(waitingShare*float64(o.MaxRows)))), ends: newEnds(),
		now: math.MinInt64, removed: make(rows.Removed), stats: Stats{Rejected: make(map[string]uint64)},
		records: override.New(o.NoStore),
	}
	f.predict = predict.New(f.predictOptions(), f.predictRow)
	f.busiest = busiest.New(o.Busiest, f.ids.hash(""))
	f.setRules(set)
	return f
}

func (f *Fold) predictOptions() predict.Options {
	return predict.Options{Most: f.opts.Predict, LagCap: f.opts.PredictLagCap}
}

func (f *Fold) setRules(set *rules.Set) {
	f.file, f.set, f.kinds, f.accounts = set, f.records.Shadows(set), nil, newAccounts(set)
	for i, r := range set.Rules {
		o := f.predictOptions()
		f.accounts[i].predicts, f.accounts[i].tracks = o.Predicts(r), o.TracksFrom(r)
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
func (f *Fold) Entry(e *schemas.Entry) { f.entry(e, f.ids.hash(e.ID)) }

// entry folds an entry; hash is of its caller's id.
func (f *Fold) entry(e *schemas.Entry, hash uint64) {
	f.Advance(e.Time)
	f.stats.Entries++
	if e.Response {
		f.stats.Responses += uint64(e.Count)
	} else {
		f.stats.Requests += uint64(e.Count)
		if e.Blocked {
			f.stats.Blocked += uint64(e.Count)
			f.busiest.Blocked(e, hash, f.now)
		} else {
			f.busiest.Admitted(e, hash, f.now)
		}
	}
	for k := range f.kinds {
		if f.kinds[k].kind != e.Kind {
			continue
		}
		for _, i := range f.kinds[k].rules {
			r := f.set.Rules[i]
			f.accounts[i].use.note(r, e)
			if r.Matches(e) {
				f.count(r, i, e, rowHash(hash, i))
			}
		}
		return
	}
}

// count adds the entry to the window of one rule.
func (f *Fold) count(r *rules.Rule, rule int32, e *schemas.Entry, hash uint64) {
	blocked := e.Blocked
	if r.Mode == schemas.ModeShadow {
		blocked = f.shadowed(hash, rule, e)
	}
	f.accounts[rule].came(r.Mode, uint64(e.Count), blocked)
	weight := r.Weight(e, blocked)
	if weight == 0 {
		if blocked {
			f.refuse(r, rule, e, hash)
		}
		return
	}
	i, known := f.table.find(hash, rule, e.ID)
	limit, unlimited := LimitFor(r, e.ID)
	if known && f.table.row(i).beside&hasRecords != 0 || !known && f.records.AboutCallers() {
		limit, unlimited = f.limitUnder(r, e.ID)
	}
	if !known {
		n := newcomer{r: r, rule: rule, hash: hash, id: e.ID, at: e.Time, limit: limit, unlimited: unlimited, weight: weight}
		var admitted bool
		if i, admitted = f.admit(&n); !admitted {
			return
		}
	}
	row := f.table.row(i)
	if row.since != never && !row.remembers(r, limit, e.Time) {
		row.since = never
	}
	state, count := r.Window.Add(row.state, limit, e.Time, weight)
	row.state = state
	if !known {
		f.wheel.schedule(i, f.expiry(row))
	}
	if count.Place == window.Late && known {
		f.stats.Late += uint64(weight)
		return
	}
	f.markDirty(i, row)
	if count.Place == window.Late {
		f.stats.Late += uint64(weight) // a row of a caller that waited, whose newest entry is the oldest
		return
	}
	if unlimited {
		return
	}
	f.warn(r, row, e, count, limit, weight)
	if near := 2*count.Total >= min(limit, f.accounts[rule].tracks) || weight > 1; near || row.beside&tracked != 0 {
		f.observe(r, i, row, e, count.Total, limit, weight, near)
	}
	if !row.staysOpen(count, e.Time) {
		f.step(r, i, row, e, count, limit, weight)
	}
}

// shadowed reports whether the entry would have been blocked if its rule, which is in shadow mode, were enforced and were the
// only rule: whether the rule's own closure holds. So a shadow rule counts as if it were alone and decisions took no time. An
// entry that merges requests from before and after its own close counts whole: for shadow rules, merged and unmerged logs need
// not agree.
func (f *Fold) shadowed(hash uint64, rule int32, e *schemas.Entry) bool {
	i, ok := f.table.find(hash, rule, e.ID)
	return ok && f.table.row(i).closure.ClosedAt(e.Time)
}

// LimitFor returns the limit that a caller is counted under, and whether none is enforced. A caller without a limit is
// counted under the rule's own, so that its counts mean something when a limit comes.
func LimitFor(r *rules.Rule, id string) (limit int64, unlimited bool) {
	limit, unlimited = r.LimitFor(id)
	if unlimited {
		limit = r.Limit
	}
	return limit, unlimited
}

// CountLost counts records that the log no longer held when they were to be folded.
func (f *Fold) CountLost(n uint64) { f.stats.Lost += n }

// CountRejected counts messages that could not be read, by reason.
func (f *Fold) CountRejected(reason string, n uint64) { f.stats.Rejected[reason] += n }

// Busiest returns the busiest callers: see busiest.Callers. Without Options.Busiest there are none.
func (f *Fold) Busiest() *busiest.Callers { return &f.busiest }

// LogTime returns the newest time folded, in Unix nanoseconds; math.MinInt64 if there was none.
func (f *Fold) LogTime() int64 { return f.now }

// Rules returns the rules that the fold counts by, as they were given to it: without the shadow modes of control records.
func (f *Fold) Rules() *rules.Set { return f.file }

// Stats returns a copy of the counters since the Fold was made.
func (f *Fold) Stats() Stats { return f.stats.clone(f) }

// markDirty puts a row on the list of the next checkpoint.
func (f *Fold) markDirty(i uint32, r *row) {
	if !r.dirty && !f.opts.NoStore {
		r.dirty = true
		f.dirty = append(f.dirty, i)
	}
}

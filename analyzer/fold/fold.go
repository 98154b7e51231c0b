package fold

import (
	"maps"
	"time"

	"github.com/509da70d/floodgate/analyzer/busiest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// Defaults of Options.
const (
	DefaultMaxRows    = 250_000
	DefaultMaxSenders = 100_000
)

// Options configures a Fold. The zero value is for a topic of one partition, with the public key and the default bounds.
type Options struct {
	Key        schemas.PartitionKey   // zero: schemas.DefaultPartitionKey
	Partition  int                    // the partition whose frames are folded
	Partitions int                    // 0 is 1
	MaxRows    int                    // bound of pairs of rule and caller with an exact count; 0 is DefaultMaxRows; see admit.go
	MaxSenders int                    // how many producers and sources are remembered; 0 is DefaultMaxSenders
	NoStore    bool                   // nothing will be committed: TakeDirty returns nothing
	Ends       bool                   // report closures that end by log time as changes: see Change.Ended. The counts are the same
	Busiest    bool                   // sample the busiest callers: see Busiest. The counts are the same
	OnEntry    func(e *schemas.Entry) // called with each entry of a frame that is counted, in log order; may be nil
	// OnClockAhead is called for each folded frame that was made, by its producer's clock, later than its message's time. by is the
	// difference: one of the two clocks is wrong. It may be nil.
	OnClockAhead func(producer schemas.ProducerID, by time.Duration)

	// Predict is the upper bound of what any rule predicts. The zero value turns prediction off: TakePlans returns nothing then. Counts,
	// closures and rows do not depend on it.
	Predict rules.Predict
	// PredictLagCap is the largest lag at which closes are predicted, as a share of the window; 0 is predict.DefaultLagCap.
	PredictLagCap float64

	// Only reports whether a rule counts a caller. It is for an audit; nil counts all callers.
	Only func(r *rules.Rule, id string) bool
}

func (o *Options) predict() predict.Options {
	return predict.Options{MaxPredict: o.Predict, LagCap: o.PredictLagCap}
}

// Fold applies entries to the windows of all rules, in log order. It does no I/O and reads no clock: its content is a function of the rules
// and of what it was given, so that two folds over one log agree. One goroutine may use a Fold.
type Fold struct {
	opts        Options
	fingerprint uint64
	rules       *inForce
	table       table
	dedupe      *dedupe
	predict     *predict.Predictor
	busiest     busiest.Callers
	pools       pools
	counters    []ruleCounters // by rule
	stats       Stats

	frame    schemas.Frame // the frame that is being folded
	offset   int64         // the offset of its record
	sourced  bool          // the frame is from a source of lines
	changes  []Change
	canaries []schemas.Entry
	filled   window.State // scratch memory for policy.Fill

	toForecast []changedRow // of the entry that is folded
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
		opts: o, fingerprint: o.Key.Fingerprint(), dedupe: newDedupe(o.MaxSenders), rules: &inForce{records: override.New(o.NoStore)},
		stats: Stats{Rejected: make(map[string]uint64)},
	}
	f.predict = predict.New(o.predict(), f.table.predictRow)
	f.table = newTable(o, f.rules, f.predict)
	f.busiest = busiest.New(o.Busiest, f.table.ids.hash(""))
	f.setRules(set)
	f.usePools()
	return f
}

func (f *Fold) setRules(set *rules.Set) {
	f.rules.use(set)
	f.table.losses.byRule = newRuleLosses(set)
	f.counters = newCounters(set, f.opts.predict())
}

// Entry folds one entry. Its changes are added to what TakeChanges returns.
func (f *Fold) Entry(e *schemas.Entry) { f.fold(e, f.table.ids.hash(e.ID)) }

// fold moves log time to an entry, counts it, and adds what is predicted to its changes. hash is the hash of its caller's id.
func (f *Fold) fold(e *schemas.Entry, hash uint64) {
	f.Advance(e.Time)
	f.entry(e, hash)
	if len(f.toForecast) > 0 {
		f.forecast()
	}
}

// entry counts an entry.
func (f *Fold) entry(e *schemas.Entry, hash uint64) {
	f.stats.Entries++
	if e.Response {
		f.stats.Responses += uint64(e.Count)
	} else {
		f.stats.Requests += uint64(e.Count)
		if e.Blocked {
			f.stats.Blocked += uint64(e.Count)
			f.busiest.Blocked(e, hash, f.table.now)
		} else {
			f.busiest.Admitted(e, hash, f.table.now)
		}
	}
	for k := range f.rules.kinds {
		if f.rules.kinds[k].kind != e.Kind {
			continue
		}
		for _, i := range f.rules.kinds[k].rules {
			r := f.rules.set.Rules[i]
			f.counters[i].use.note(r, e)
			if r.Matches(e) {
				f.count(r, i, e, rowHash(hash, i))
			}
		}
		return
	}
}

// count adds the entry to the window of one rule.
func (f *Fold) count(r *rules.Rule, rule int32, e *schemas.Entry, hash uint64) {
	if r.Pool != nil {
		f.countPool(r, rule, e, hash)
		return
	}
	blocked, wouldBlock := e.Blocked, false
	if r.Mode == schemas.ModeShadow {
		wouldBlock = f.table.closedAt(hash, rule, e)
		if f.rules.onTrial(rule) && !r.FollowsRequests() {
			blocked = wouldBlock
		}
	}
	if r.AtArrival || r.Measure == rules.InFlight {
		f.countByArrival(r, rule, e, hash, blocked, wouldBlock)
		return
	}
	f.counters[rule].countRequests(r.Mode, uint64(e.Count), blocked, wouldBlock)
	weight := r.Weight(e, blocked)
	if weight == 0 {
		if blocked {
			f.refuse(r, rule, e, hash)
		}
		return
	}
	i, known := f.table.find(hash, rule, e.ID)
	limit, unlimited := f.limitOfEntry(r, i, known, e.ID)
	if !known {
		n := newcomer{r: r, rule: rule, hash: hash, id: e.ID, at: e.Time, limit: limit, unlimited: unlimited, weight: weight}
		var admitted bool
		if i, admitted = f.table.admit(&n); !admitted {
			return
		}
	}
	row := f.table.row(i)
	if row.since != never && !row.keepsMark(r, limit, e.Time) {
		row.since = never
	}
	state, count := r.Window.Add(row.state, limit, e.Time, weight)
	row.state = state
	if !known {
		f.table.wheel.schedule(i, f.table.expiry(row))
	}
	if count.Place == window.Late && known {
		f.stats.Late += uint64(weight)
		return
	}
	f.table.markDirty(i, row)
	if count.Place == window.Late {
		f.stats.Late += uint64(weight) // the row is new, but its caller waited, and has sent newer entries
		return
	}
	if unlimited {
		return
	}
	f.warn(r, row, e, count, limit, weight)
	if near := 2*count.Total >= min(limit, f.counters[rule].tracks) || weight > 1; near || row.flags&tracked != 0 {
		f.observe(r, i, row, e, count.Total, limit, weight, near)
	}
	if !row.staysOpen(count, e.Time) {
		f.step(r, i, row, e, count, limit, weight)
	}
}

// limitOfEntry returns the limit of an entry's caller, which has row i if known is set.
func (f *Fold) limitOfEntry(r *rules.Rule, i uint32, known bool, id string) (limit int64, unlimited bool) {
	return f.rules.limitBy(f.recordsOfEntry(r, i, known, id), r, id)
}

// recordsOfEntry returns the control records in force about an entry's caller, which has row i if known is set.
func (f *Fold) recordsOfEntry(r *rules.Rule, i uint32, known bool, id string) override.List {
	switch {
	case known:
		return f.rules.recordsOf(r, f.table.row(i))
	case f.rules.records.AboutCallers():
		return f.rules.records.Of(schemas.Caller{Kind: r.Kind, ID: id})
	}
	return override.List{}
}

// Advance moves log time forward. It ends the control records whose time is over then, reports the closures that have ended, and drops
// expired rows at each full minute.
func (f *Fold) Advance(t int64) {
	if t <= f.table.now {
		return
	}
	if t >= f.rules.records.NextEnd() {
		f.expireRecords(t)
	}
	for r := f.table.ends.take(t); r != nil; r = f.table.ends.take(t) {
		limit, _ := f.rules.limitOf(f.rules.set.Rules[r.rule], r)
		f.reportEnd(r, limit, f.table.ends.endOf(r))
	}
	before := f.table.now
	if f.table.advance(t) {
		f.dedupe.expire(t)
	}
	if t >= f.pools.turn {
		f.turnPools(before)
	}
}

// CountLost counts records that were gone from the log before they could be folded.
func (f *Fold) CountLost(n uint64) { f.stats.Lost += n }

// CountRejected counts, by reason, messages that could not be read.
func (f *Fold) CountRejected(reason string, n uint64) { f.stats.Rejected[reason] += n }

// LogTime returns the newest time folded, in Unix nanoseconds; math.MinInt64 if there was none.
func (f *Fold) LogTime() int64 { return f.table.now }

// Rules returns the rules that the fold counts by, as they were given to it: without the shadow modes of control records.
func (f *Fold) Rules() *rules.Set { return f.rules.file }

// Stats returns a copy of the counters since the Fold was made.
func (f *Fold) Stats() Stats {
	s, t := f.stats, &f.table
	s.Rejected = maps.Clone(s.Rejected)
	s.Rules = make([]RuleStats, len(f.counters))
	for i := range f.counters {
		r := f.rules.set.Rules[i]
		s.Rules[i] = f.counters[i].stats(r, &t.losses.byRule[i])
		s.Rules[i].ByHand = f.rules.records.Modes().Since(r.Name)
	}
	s.Stats = f.predict.Stats(t.now)
	records := f.rules.records.Stats()
	s.InForceBy, s.InForce = records.InForce, records.InForce.Sum()
	s.Controls, s.ControlRefused = records.Applied, maps.Clone(records.Refused)
	s.Pools, s.PoolDropped = f.poolStats(), maps.Clone(f.pools.dropped)
	s.Displaced, s.Expired = t.displaced, t.expired
	s.Rows, s.Waiting = t.used, len(t.waiting.callers)
	s.Senders, s.Gaps = len(f.dedupe.rows), f.dedupe.gaps
	return s
}

package fold

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// MaxTrial is how many requests a Trial may have.
const MaxTrial = 10_000

// Draft is a copy of what a fold holds about one caller. Try tries requests on it. It does not change, and any number of goroutines may use
// one.
type Draft struct {
	Caller  schemas.Caller
	LogTime int64

	set     *rules.Set
	rows    []rows.Change
	spans   map[string]earlySpan // by rule: the predicted closures that gates know
	predict rules.Predict        // the upper bound of what any rule predicts
}

// earlySpan is a predicted closure, and the fingerprint of the rule that it was predicted under.
type earlySpan struct {
	span    schemas.Span
	held    bool // because of requests in flight
	version uint64
}

// Draft copies what the fold holds about a caller. It changes nothing. It takes a few microseconds for each rule of the caller's kind.
func (v View) Draft(c schemas.Caller) *Draft {
	d := &Draft{Caller: c, LogTime: v.table.now, set: v.rules.file, spans: make(map[string]earlySpan), predict: v.options.MaxPredict}
	for _, r := range v.rules.records.RowsOf(c) {
		key, value := r.Encode()
		d.rows = append(d.rows, rows.Change{Key: key, Value: value})
	}
	hash := v.table.ids.hash(c.ID)
	for _, i := range v.rules.ofKind(c.Kind) {
		rule := v.rules.set.Rules[i]
		if rule.Pool != nil {
			d.rows = append(d.rows, v.draftPool(rule))
		}
		n, ok := v.table.find(rowHash(hash, i), i, c.ID)
		if !ok {
			continue
		}
		r := v.table.row(n)
		key, value := v.table.encode(nil, r)
		d.rows = append(d.rows, rows.Change{Key: key, Value: value})
		limit, _ := v.rules.limitOf(rule, r)
		if a := v.predict.Ahead(n, rule, limit, v.table.now); a.Span.Until > 0 {
			d.spans[rule.Name] = earlySpan{a.Span, a.Held, rule.Fingerprint()}
		}
	}
	return d
}

// Trial is a number of equal requests that come at the same time.
type Trial struct {
	Resource string
	Status   uint16     // of the responses; 0 is 200
	Cost     int64      // of each response, and what its server declares; less than 0 is 0
	Count    int        // of requests; 0 counts as 1, and more than MaxTrial as MaxTrial
	At       int64      // Unix nanoseconds; log time if that is later
	Rules    *rules.Set // the rules to try the requests by; nil: those that count now
}

// Outcome is the result of a Trial.
type Outcome struct {
	At       int64 // Unix nanoseconds: when the requests would come
	Requests int
	Admitted int // all requests, or those before the first that is refused
	Callers  []CallerOutcome
}

// CallerOutcome is the result of a Trial for one caller.
type CallerOutcome struct {
	Caller schemas.Caller
	Record RecordLook    // a control record may close it, too
	Open   bool          // it is open before the first request
	Closes bool          // it is open before the first request, and closed after the last
	Rules  []RuleOutcome // of the caller's kind
}

// RuleOutcome is the result of a Trial for one caller under one rule.
type RuleOutcome struct {
	Counts   bool         // the rule counts such requests, or their responses
	Weight   int64        // the sum over all admitted requests
	Admitted int          // requests that come while the rule has not closed the caller
	Before   RuleLook     // before the trial
	After    RuleLook     // after the trial
	Early    schemas.Span // the predicted closure that gates hold and that covers the time of the trial; zero if there is none
}

// ClosedAt reports whether, after the trial, the rule closes the caller at t, enforced or not.
func (o *RuleOutcome) ClosedAt(t int64) bool {
	return o.After.Closure.ClosedAt(t) || o.Early.Covers(t) || o.After.NoRoom()
}

// ClosedBefore reports whether the rule closes the caller at t before the trial, enforced or not.
func (o *RuleOutcome) ClosedBefore(t int64) bool {
	return o.Before.Closure.ClosedAt(t) || o.Early.Covers(t) || o.Before.NoRoom()
}

// Try returns what would become of the requests of a trial if they came now, and were made by each of the callers at once. The drafts may
// be of one partition or of several. In a trial decisions take no time: the request that reaches a limit is the last that is admitted. Under a
// rule that follows requests, all of them are in flight until the trial ends. Shares are left out. Try counts nothing in the real fold: it
// folds a copy, by the same code.
func Try(t Trial, drafts ...*Draft) (*Outcome, error) {
	out := &Outcome{At: t.At, Requests: min(max(t.Count, 1), MaxTrial)}
	for _, d := range drafts {
		out.At = max(out.At, d.LogTime)
	}
	tried := make([]*trialFold, len(drafts))
	for i, d := range drafts {
		var err error
		if tried[i], err = d.fold(&t, out.At); err != nil {
			return nil, fmt.Errorf("try requests of %s: %w", d.Caller, err)
		}
	}
	for out.Admitted < out.Requests && !slices.ContainsFunc(tried, (*trialFold).closed) {
		out.Admitted++
		for _, f := range tried {
			f.admit()
		}
	}
	for _, f := range tried {
		f.refuse(out.Requests - out.Admitted)
		out.Callers = append(out.Callers, f.end())
	}
	return out, nil
}

// trialFold is a fold with the rows of one caller, and the outcome so far.
type trialFold struct {
	fold    *Fold
	draft   *Draft
	at      int64
	arrival schemas.Entry
	answer  schemas.Entry
	rules   []int32 // of the caller's kind
	hash    uint64  // of the caller's id
	outcome CallerOutcome
}

// fold returns a fold of what the draft holds, under the rules of the trial.
func (d *Draft) fold(t *Trial, at int64) (*trialFold, error) {
	f := New(d.set, Options{NoStore: true, MaxRows: 16 + 4*len(d.set.Rules), Predict: d.predict})
	for _, r := range d.rows {
		if err := f.Restore(r.Key, r.Value); err != nil {
			return nil, err
		}
	}
	f.Resume(d.LogTime)
	f.Advance(at)
	if t.Rules != nil {
		f.table.maxRows = 16 + 4*len(t.Rules.Rules)
		f.SetRules(t.Rules)
	}
	e := schemas.Entry{Time: at, Kind: d.Caller.Kind, ID: d.Caller.ID, Resource: t.Resource, Count: 1}
	tried := &trialFold{fold: f, draft: d, at: at, arrival: e, answer: e, rules: f.rules.ofKind(d.Caller.Kind)}
	tried.hash = f.table.ids.hash(d.Caller.ID)
	tried.answer.Response, tried.answer.Status, tried.answer.Cost = true, cmp.Or(t.Status, 200), max(t.Cost, 0)
	tried.arrival.Declared, tried.arrival.Arrived = max(t.Cost, 0), max(schemas.Tick(at), 1)
	before := f.View().Look(d.Caller, at)
	tried.outcome = CallerOutcome{Caller: d.Caller, Record: before.Record, Rules: make([]RuleOutcome, len(tried.rules))}
	tried.outcome.Open = !tried.closed()
	for n, l := range before.Rules {
		o := &tried.outcome.Rules[n]
		o.Before, o.Early = l, tried.early(l.Rule).span
		o.Counts = l.Rule.Matches(&tried.arrival) || l.Rule.Matches(&tried.answer)
	}
	return tried, nil
}

// early returns the predicted closure of a rule that gates hold, if it covers the time of the trial.
func (f *trialFold) early(r *rules.Rule) earlySpan {
	if e := f.draft.spans[r.Name]; e.version == r.Fingerprint() && e.span.Covers(f.at) {
		return e
	}
	return earlySpan{}
}

// closedBy reports whether a rule has closed the caller, enforced or not, and whether gates record what they refuse as blocked early.
func (f *trialFold) closedBy(rule int32) (closed, early bool) {
	r := f.fold.rules.set.Rules[rule]
	i, ok := f.fold.table.find(rowHash(f.hash, rule), rule, f.draft.Caller.ID)
	if ok && f.fold.table.row(i).closure.ClosedAt(f.at) {
		return true, false
	}
	if e := f.early(r); e.span.Until > 0 {
		return true, !e.held
	}
	if !ok || !f.fold.counters[rule].holds {
		return false, false
	}
	row := f.fold.table.row(i)
	limit, unlimited := f.fold.rules.limitOf(r, row)
	l := RuleLook{Closes: true, Room: f.fold.table.room(r, row, limit, f.at), Count: r.Window.View(row.state, limit, f.at)}
	return !unlimited && l.NoRoom(), false
}

// closedByRecord reports whether a control record has closed the caller.
func (f *trialFold) closedByRecord() bool {
	l := &f.outcome.Record
	return l.Mode == schemas.ModeEnforce && l.Closure.ClosedAt(f.at)
}

// closed reports whether gates refuse the caller.
func (f *trialFold) closed() bool {
	return f.closedByRecord() || slices.ContainsFunc(f.rules, func(rule int32) bool {
		closed, _ := f.closedBy(rule)
		return closed && f.fold.rules.set.Rules[rule].Mode == schemas.ModeEnforce
	})
}

// admit folds one admitted request and its response. A request that holds a part of a limit stays in flight: its response does not come.
func (f *trialFold) admit() {
	for n, rule := range f.rules {
		o, r := &f.outcome.Rules[n], f.fold.rules.set.Rules[rule]
		if closed, _ := f.closedBy(rule); !closed {
			o.Admitted++
		}
		for _, e := range []*schemas.Entry{&f.arrival, &f.answer} {
			if !r.Matches(e) {
				continue
			}
			o.Weight = integer.Add(o.Weight, r.Weight(e, false))
			if !e.Response || !f.fold.counters[rule].holds {
				f.fold.count(r, rule, e, rowHash(f.hash, rule))
			}
		}
	}
	if len(f.fold.toForecast) > 0 {
		f.fold.forecast()
	}
}

// refuse folds requests that were refused, if this caller is the one that was closed: gates record blocked requests of closed callers only.
// It folds them one by one, because a rule in shadow mode counts by its own closes.
func (f *trialFold) refuse(requests int) {
	e := f.arrival
	e.Blocked = true
	for n := requests; n > 0; n-- {
		refuses := f.closedByRecord()
		e.Early = !refuses
		for i, rule := range f.rules {
			closed, early := f.closedBy(rule)
			if !closed {
				f.outcome.Rules[i].Admitted++
			} else if f.fold.rules.set.Rules[rule].Mode == schemas.ModeEnforce {
				refuses, e.Early = true, e.Early && early
			}
		}
		if refuses {
			f.fold.Entry(&e)
		}
	}
}

// end returns the outcome for the caller.
func (f *trialFold) end() CallerOutcome {
	f.outcome.Closes = f.outcome.Open && f.closed()
	for n, l := range f.fold.View().Look(f.draft.Caller, f.at).Rules {
		f.outcome.Rules[n].After = l
	}
	return f.outcome
}

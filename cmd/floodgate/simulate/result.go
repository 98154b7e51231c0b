package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/schemas"
)

// Result is what a run has measured; doc.go says how. Shares are of 1: 0.01 is 1 %.
type Result struct {
	Requests  int64 `json:"requests"`
	Admitted  int64 `json:"admitted"`
	Decisions int64 `json:"decisions"` // all that were published, without answers to canaries

	Rules []RuleResult  `json:"rules"`           // of the enforcing ones with a limit, in the order of the file
	Pools []replay.Pool `json:"pools,omitempty"` // of those with a capacity, of each run

	LagMean    float64 `json:"lag_seconds"` // as canaries measured it
	LagLargest float64 `json:"lag_largest_seconds"`

	start, from int64 // Unix nanoseconds: of the run, and of what is measured
	lags        []int64
	decisions   map[string]int64 // by rule, from the end of the warm-up on
}

// RuleResult is what was measured of one rule.
type RuleResult struct {
	Rule   string `json:"rule"`
	Window string `json:"window"`
	Limit  int64  `json:"limit"`

	AdmittedShare float64   `json:"admitted_per_limit"`    // of the periods whose demand reached the limit
	SyncShare     float64   `json:"synchronous_per_limit"` // the rule's algorithm, deciding at once
	LogShare      float64   `json:"exact_log_per_limit"`   // the exact log, deciding at once; 0 if the limit is too large
	Overshoot     Quantiles `json:"overshoot"`             // of the periods of all callers after the warm-up
	First         Quantiles `json:"overshoot_first"`       // of each caller's first period that reached the limit
	Later         Quantiles `json:"overshoot_later"`       // of the periods after that one, and after the warm-up
	Warmup        Quantiles `json:"overshoot_warmup"`      // of the periods that begin during the warm-up
	MostOver      int64     `json:"most_requests_over"`    // by which one period exceeded its limit
	Lost          float64   `json:"lost"`                  // of what the synchronous limiter admitted

	Innocents        int64   `json:"innocents"`
	InnocentsClosed  int64   `json:"innocents_closed"`
	InnocentsBlocked float64 `json:"innocents_blocked"` // of their requests
	InnocentLongest  float64 `json:"innocent_closed_longest_seconds"`

	Bounds       Bounds  `json:"bounds"`
	DecisionRate float64 `json:"decisions_per_second"`

	// Limiters is what was measured of a rule about requests that last: floodgate first, then others on the same traffic. It is empty
	// for all other rules.
	Limiters []Limiter `json:"limiters,omitempty"`

	tally  tally
	Series Series `json:"series"` // of the caller with the most requests
}

// Quantiles describes a distribution.
type Quantiles struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Series is what the picture shows of one caller.
type Series struct {
	Caller  string        `json:"caller"`
	Limit   int64         `json:"limit"`
	Length  float64       `json:"period_seconds"`
	Periods []SeriesPoint `json:"periods"`
	Closed  [][2]float64  `json:"closed"` // at the first server, in seconds since the start
}

// SeriesPoint is one period.
type SeriesPoint struct {
	At       float64 `json:"at"` // seconds since the start
	Demand   int64   `json:"demand"`
	Admitted int64   `json:"admitted"`
	Sync     int64   `json:"synchronous"`
	Peak     int64   `json:"peak"`
}

// tally holds the sums from which a RuleResult is computed. Those of several runs can be added.
type tally struct {
	over, first, later, warmup        []float64
	capacity, admitted, sync, exact   float64 // of saturated periods
	lost, allSync                     float64
	innocents, closed, asked, refused int64
	longest                           time.Duration
	mostOver                          int64
	decisions                         int64
	seconds                           float64
	exactKnown                        bool
	bounds                            Bounds
	lasting                           lastingTally
}

func newResult(c *Config) *Result {
	return &Result{
		start: c.Start, from: c.Start + int64(c.Warmup), decisions: make(map[string]int64),
	}
}

// lag notes what a canary has measured.
func (r *Result) lag(now, lag int64) {
	if now >= r.from {
		r.lags = append(r.lags, lag)
	}
}

// published notes a produce.
func (r *Result) published(now int64, b *published) {
	r.Decisions += int64(len(b.decisions))
	if now < r.from {
		return
	}
	for i := range b.decisions {
		r.decisions[b.decisions[i].Rule]++
	}
}

// finish computes the result of a run that ended at end.
func (ref *reference) finish(r *Result, end int64, servers []*server) {
	for _, m := range ref.measure {
		t := tally{seconds: float64(end-r.from) / 1e9, decisions: r.decisions[m.rule.Name], exactKnown: m.exact != nil}
		for _, s := range m.order {
			m.close(s, end)
			t.subject(m, s, r, end)
			if !s.full {
				t.innocent(m, s, servers)
			}
		}
		rr := RuleResult{Rule: m.rule.Name, Window: m.rule.WindowText(), Limit: m.rule.Limit, tally: t}
		rr.Series = m.series(r.start, servers)
		if m.lasts != nil {
			rr.Limiters = []Limiter{{Name: "floodgate"}}
		}
		r.Rules = append(r.Rules, rr)
	}
	r.compute()
}

// subject adds the periods of a caller that lie in the run as a whole.
func (t *tally) subject(m *measure, s *subject, r *Result, end int64) {
	if s.unlimited {
		return
	}
	if m.lasts != nil {
		t.last(m, s, r, end)
		return
	}
	capacity := float64(m.rule.Window.Capacity(s.limit))
	reached := false
	for i := range s.periods {
		p := &s.periods[i]
		if p.start+m.rule.Window.Length(p.start) > end {
			break
		}
		over := max(0, (float64(p.peak)-capacity)/float64(s.limit))
		first := !reached && float64(p.demand) >= capacity
		if first {
			t.first = append(t.first, over)
		}
		if p.start < r.from {
			t.warmup = append(t.warmup, over)
		} else {
			t.period(p, over, capacity, float64(s.limit))
			t.bounds.period(s, p.start, over)
			if reached {
				t.later = append(t.later, over)
			}
		}
		reached = reached || first
	}
}

// period adds a period after the warm-up.
func (t *tally) period(p *period, over, capacity, limit float64) {
	t.over = append(t.over, over)
	t.mostOver = max(t.mostOver, p.peak-int64(capacity))
	t.lost += max(0, float64(p.sync-p.ours))
	t.allSync += float64(p.sync)
	if float64(p.demand) < limit {
		return
	}
	t.capacity += limit
	t.admitted += float64(p.ours)
	t.sync += float64(p.sync)
	t.exact += float64(p.exact)
}

// innocent adds a caller that the synchronous limiter never closed.
func (t *tally) innocent(m *measure, s *subject, servers []*server) {
	t.innocents++
	t.asked += s.requests
	t.refused += s.blocked
	var longest time.Duration
	for _, at := range servers {
		longest = max(longest, at.closures.longest(m.rule.Name, schemas.Caller{Kind: m.rule.Kind, ID: s.id}))
	}
	if longest > 0 {
		t.closed++
	}
	t.longest = max(t.longest, longest)
}

// series returns what the picture shows: the caller with the most requests.
func (m *measure) series(start int64, servers []*server) (out Series) {
	var busy *subject
	for _, s := range m.order {
		if busy == nil || s.requests > busy.requests {
			busy = s
		}
	}
	if busy == nil {
		return out
	}
	seconds := func(t int64) float64 { return float64(t-start) / 1e9 }
	caller := schemas.Caller{Kind: m.rule.Kind, ID: busy.id}
	out = Series{Caller: caller.String(), Limit: busy.limit, Length: float64(m.length(start)) / 1e9}
	for _, p := range busy.periods {
		out.Periods = append(out.Periods, SeriesPoint{At: seconds(p.start), Demand: p.demand, Admitted: p.ours, Sync: p.sync, Peak: p.peak})
	}
	if l := servers[0].closures.of[closureKey{m.rule.Name, caller}]; l != nil {
		for _, i := range l.held {
			out.Closed = append(out.Closed, [2]float64{seconds(i.from), seconds(i.to)})
		}
	}
	return out
}

// Pool adds other runs of the same rules to r, such as those of other seeds: the result is as of one run that had all their
// periods. The series stays that of r.
func (r *Result) Pool(others ...*Result) {
	for _, o := range others {
		r.Requests += o.Requests
		r.Admitted += o.Admitted
		r.Decisions += o.Decisions
		r.Pools = append(r.Pools, o.Pools...)
		r.lags = append(r.lags, o.lags...)
		for i := range r.Rules {
			r.Rules[i].add(&o.Rules[i])
		}
	}
	r.compute()
}

func (rr *RuleResult) add(o *RuleResult) {
	rr.tally.add(&o.tally)
	for i := range rr.Limiters {
		rr.Limiters[i].tally.add(&o.Limiters[i].tally)
	}
}

func (t *tally) add(o *tally) {
	t.lasting.add(&o.lasting)
	t.over, t.first, t.later = append(t.over, o.over...), append(t.first, o.first...), append(t.later, o.later...)
	t.warmup = append(t.warmup, o.warmup...)
	t.mostOver, t.longest = max(t.mostOver, o.mostOver), max(t.longest, o.longest)
	t.capacity, t.admitted, t.sync, t.exact = t.capacity+o.capacity, t.admitted+o.admitted, t.sync+o.sync, t.exact+o.exact
	t.lost, t.allSync, t.seconds, t.decisions = t.lost+o.lost, t.allSync+o.allSync, t.seconds+o.seconds, t.decisions+o.decisions
	t.bounds.add(&o.bounds)
	t.innocents, t.closed, t.asked, t.refused = t.innocents+o.innocents, t.closed+o.closed, t.asked+o.asked, t.refused+o.refused
}

// compute sets what follows from the tallies.
func (r *Result) compute() {
	for i := range r.Rules {
		rr := &r.Rules[i]
		t := &rr.tally
		rr.AdmittedShare, rr.SyncShare = ratio(t.admitted, t.capacity), ratio(t.sync, t.capacity)
		if t.exactKnown {
			rr.LogShare = ratio(t.exact, t.capacity)
		}
		rr.Overshoot, rr.First, rr.Later = quantilesOf(t.over), quantilesOf(t.first), quantilesOf(t.later)
		rr.Warmup, rr.MostOver = quantilesOf(t.warmup), max(0, t.mostOver)
		rr.Lost = ratio(t.lost, t.allSync)
		rr.Innocents, rr.InnocentsClosed = t.innocents, t.closed
		rr.InnocentsBlocked = ratio(float64(t.refused), float64(t.asked))
		rr.InnocentLongest = t.longest.Seconds()
		rr.Bounds = t.bounds
		rr.Bounds.Mean = ratio(t.bounds.sum, float64(t.bounds.Closes))
		rr.DecisionRate = ratio(float64(t.decisions), t.seconds)
		for j := range rr.Limiters {
			if j > 0 {
				t = &rr.Limiters[j].tally
			}
			rr.Limiters[j].compute(t)
		}
	}
	sum, largest := 0.0, int64(0)
	for _, l := range r.lags {
		sum += float64(l)
		largest = max(largest, l)
	}
	r.LagMean, r.LagLargest = ratio(sum, float64(len(r.lags)))/1e9, float64(largest)/1e9
}

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// quantilesOf describes a sample. The 0.99-quantile is by the nearest-rank method.
func quantilesOf(sample []float64) Quantiles {
	q := Quantiles{N: len(sample)}
	if q.N == 0 {
		return q
	}
	sorted := slices.Sorted(slices.Values(sample))
	for _, x := range sorted {
		q.Mean += x
	}
	q.Mean /= float64(q.N)
	q.P99, q.Max = sorted[int(math.Ceil(0.99*float64(q.N)))-1], sorted[q.N-1]
	return q
}

package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// loop takes requests and sums up what became of them. Without a lag it is server and analyzer at once: the closures in force at
// the time of a request admit or block it, then it is counted, and what follows from the count is in force at once. With a lag a
// Circuit does all that, and reports it to the loop. One goroutine uses a loop.
type loop struct {
	fold    *fold.Fold // that has counted; with a circuit, nil until the end
	kinds   []string
	reads   []reads // per kind: which entries some rule counts
	lag     int64
	gates   closures     // of the enforcing rules
	shadows closures     // of the shadow rules: callers that they would have closed
	lasting [][]*lasting // per kind: rules whose closures are kept apart, because they may end early
	holds   bool         // some of them hold a part of a limit
	circuit Circuit      // with a lag, instead of fold, gates and shadows
	ahead   *ahead       // if decisions come ahead of time
	flying  inFlight     // responses that are still to come; not with a circuit
	seen    distinct
	entry   schemas.Entry
	sum     *Summary

	foreseen [policy.Mechanisms]foresight

	onClose func(Close) error
	onEntry func(*schemas.Entry)
	err     error // of onClose, or of the circuit
}

// reads says which entries of a kind of caller at least one rule counts.
type reads struct{ arrivals, responses bool }

// newLoop returns the loop of a run. The configuration must have been checked.
func newLoop(c Config, sum *Summary) (*loop, error) {
	kinds := c.Format.Kinds()
	l := &loop{
		kinds: kinds, reads: make([]reads, len(kinds)), lag: int64(c.Lag), sum: sum, onClose: c.OnClose, onEntry: c.OnEntry,
		flying: newInFlight(c.MaxBuffer), lasting: newLasting(c.Rules, kinds),
	}
	if c.predicts() {
		l.ahead = &ahead{innocents: newInnocents(c.Rules, c.MaxRows)}
	}
	if c.Lag > 0 {
		var err error
		l.circuit, err = c.Circuit(&c, l)
		return l, err
	}
	o := fold.Options{NoStore: true, MaxRows: c.MaxRows}
	for i, kind := range kinds {
		for _, r := range c.Rules.ForKind(kind) {
			l.reads[i].responses = l.reads[i].responses || r.Reads(true)
			l.reads[i].arrivals = l.reads[i].arrivals || r.Reads(false)
			if r.Hold != nil {
				o.Predict, l.holds = c.Predict, true // what is in flight needs no lag; nothing else is predicted without one
			}
		}
	}
	l.fold = fold.New(c.Rules, o)
	return l, nil
}

// request takes the next request in order of time.
func (l *loop) request(line *ingest.Line) {
	if l.circuit == nil {
		answer, by := l.decide(line)
		l.ask(line, answer, by)
		return
	}
	for i, id := range line.IDs {
		if id != "" {
			l.seen.add(i, id)
		}
	}
	answer, err := l.circuit.Request(line)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("replay: %w", err)
	}
	for i, id := range line.IDs {
		for _, x := range l.lasting[i] {
			x.held = x.closures.closed(schemas.Caller{Kind: l.kinds[i], ID: id}, line.Time)
		}
	}
	l.add(line, answer)
	l.ask(line, answer, l.refuse(line, answer))
}

// ask notes what a request asks of rules about requests that last. by is the one that alone has refused it, or nil.
func (l *loop) ask(line *ingest.Line, a Answer, by *lasting) {
	for i, id := range line.IDs {
		if id == "" || line.Blocked || len(l.lasting[i]) == 0 {
			continue
		}
		arrival := schemas.Entry{Time: line.Time, Kind: l.kinds[i], ID: id, Resource: line.Resource, Count: 1}
		e := schemas.Entry{
			Time: line.End, Kind: l.kinds[i], ID: id, Resource: line.Resource, Count: 1, Response: true, Status: line.Status, Cost: line.Cost,
		}
		for _, x := range l.lasting[i] {
			if x.pool != nil {
				x.pool.Ask(&arrival, a.Blocked, x.held)
				continue
			}
			x.ask(&e, line.Time, a.Blocked, x == by)
		}
	}
}

// refuse notes which rules about requests that last have refused a request. It returns the one that did, if no other of them did.
func (l *loop) refuse(line *ingest.Line, a Answer) (by *lasting) {
	refused := 0
	for i, id := range line.IDs {
		if id == "" || line.Blocked || !a.Blocked {
			continue
		}
		for _, x := range l.lasting[i] {
			if x.rule.Mode == schemas.ModeEnforce && x.closures.closed(schemas.Caller{Kind: l.kinds[i], ID: id}, line.Time) {
				x.sum.Refused++
				refused++
				by = x
			}
		}
	}
	if refused > 1 {
		return nil
	}
	return by
}

// lastingOf returns what is measured of a rule about requests that last, or nil.
func (l *loop) lastingOf(rule string) *lasting {
	for _, all := range l.lasting {
		for _, x := range all {
			if x.rule.Name == rule {
				return x
			}
		}
	}
	return nil
}

// add adds a request to the summary.
func (l *loop) add(line *ingest.Line, a Answer) {
	l.sum.Requests++
	if a.Blocked || line.Blocked {
		l.sum.Blocked++
	} else if a.Shadowed {
		l.sum.ShadowBlocked++
	}
}

// decide decides on a request and counts it. A blocked request counts as blocked for the callers that are closed, and does not
// count for its other callers: .github/ARCHITECTURE.md, section 4, "When requests are recorded". by is the rule about requests that last
// that alone has refused it, or nil.
func (l *loop) decide(line *ingest.Line) (a Answer, by *lasting) {
	l.end(line.Time)
	var closed [ingest.MaxCallers + 1]bool
	counted := false // a closure that was counted refuses it
	for i, id := range line.IDs {
		if id == "" {
			continue
		}
		caller := schemas.Caller{Kind: l.kinds[i], ID: id}
		l.seen.add(i, id)
		closed[i] = l.gates.closed(caller, line.Time)
		counted, a.Shadowed = counted || closed[i], a.Shadowed || l.shadows.closed(caller, line.Time)
		for _, x := range l.lasting[i] {
			held := x.closures.closed(caller, line.Time)
			x.held = held
			closed[i] = closed[i] || held && x.rule.Mode == schemas.ModeEnforce
			a.Shadowed = a.Shadowed || held && x.rule.Mode != schemas.ModeEnforce
		}
		a.Blocked = a.Blocked || closed[i]
	}
	l.add(line, a)
	if !counted {
		by = l.refuse(line, a)
	}
	for i, id := range line.IDs {
		if id != "" && (closed[i] == a.Blocked || line.Blocked) {
			l.entry.Blocked = a.Blocked || line.Blocked
			l.count(i, id, line)
		}
	}
	return a, by
}

// end counts the responses of the requests that have ended at t.
func (l *loop) end(t int64) {
	for {
		e, ok := l.flying.next(t)
		if !ok {
			return
		}
		l.take(&e)
		l.settle()
	}
}

// count folds the entries of one caller of a request: its arrival, and its response at the same time. The response of a request that takes
// time follows when it ends. One that the gates refuse ends at once. Whether it was blocked is in l.entry.
func (l *loop) count(i int, id string, line *ingest.Line) {
	e := &l.entry
	e.Time, e.Kind, e.ID, e.Resource, e.Count, e.Arrived, e.Declared = line.Time, l.kinds[i], id, line.Resource, 1, line.Arrived, line.Declared
	if e.Blocked || !l.reads[i].responses {
		e.Arrived = 0
	}
	if l.reads[i].arrivals {
		e.Response, e.Status, e.Cost = false, 0, 0
		l.take(e)
	}
	if l.reads[i].responses {
		e.Response, e.Status, e.Cost = true, line.Status, line.Cost
		if e.Blocked != line.Blocked || !lasts(line) {
			l.take(e)
		} else {
			e.Time = line.End
			l.flying.add(e)
		}
	}
	l.settle()
}

// settle lets what follows from the last entries hold at once.
func (l *loop) settle() {
	changes := l.fold.TakeChanges()
	for i := range changes {
		l.hold(&changes[i])
	}
	l.Changes(changes)
	if !l.holds {
		return
	}
	for _, p := range l.fold.TakePlans() {
		l.held(&p.Decision, p.At)
	}
}

// held notes a decision about a rule with holds that is in force from a time on.
func (l *loop) held(d *schemas.Decision, at int64) {
	if x := l.lastingOf(d.Rule); x != nil && x.rule.Hold != nil {
		until := d.Until
		if !d.Held {
			until = 0 // what was counted closes the caller, or nothing does
		}
		x.decided(d.Caller, at, until)
	}
}

// take folds an entry.
func (l *loop) take(e *schemas.Entry) {
	l.onEntry(e)
	l.fold.Entry(e)
	l.fold.LoopPools()
}

// hold turns a decision of the fold into a closure.
func (l *loop) hold(c *fold.Change) {
	if c.Rule.Measure == rules.InFlight || c.Rule.Pool != nil {
		l.lastingOf(c.Rule.Name).change(c)
		return
	}
	if c.Kind != policy.Closed && c.Kind != policy.Moved {
		return
	}
	closures := &l.gates
	if c.Rule.Mode != schemas.ModeEnforce {
		closures = &l.shadows
	}
	closures.close(c.Caller, c.At, c.Closure.Until)
}

// Changes implements Events.
func (l *loop) Changes(changes []fold.Change) {
	for i := range changes {
		if c := &changes[i]; c.Kind == policy.Closed && !c.GoesOn {
			l.closed(c)
		}
	}
}

// closed adds a close to the summary.
func (l *loop) closed(c *fold.Change) {
	l.sum.Closes++
	l.foreseen[c.By].add(c)
	if c.Rule.Measure == rules.InFlight {
		l.lastingOf(c.Rule.Name).sum.Closures++
	}
	if c.Rule.Mode != schemas.ModeEnforce {
		l.sum.ShadowCloses++
	}
	if l.err == nil {
		l.err = l.onClose(newClose(c))
	}
}

// finish adds the totals of the whole run to the summary.
func (l *loop) finish() {
	if l.circuit != nil {
		var err error
		if l.fold, err = l.circuit.Finish(); err != nil && l.err == nil {
			l.err = fmt.Errorf("replay: %w", err)
		}
	}
	l.end(math.MaxInt64)
	l.sum.ReorderCut += l.flying.early
	l.fold.EndOvershoots()
	stats := l.fold.Stats()
	l.sum.Callers, l.sum.CallersEstimated = l.seen.count()
	l.sum.Overshoot, l.sum.Accuracy = stats.Overshoot, l.accuracy(&stats)
	l.sum.Uncounted = stats.UncountedWeight()
	for _, all := range l.lasting {
		for _, x := range all {
			if x.pool != nil {
				l.sum.Pools = append(l.sum.Pools, x.pool.Result())
				continue
			}
			l.sum.Lasting = append(l.sum.Lasting, x.result())
		}
	}
	if l.sum.Requests > 0 {
		for _, u := range fold.Unused(l.fold.Rules(), 1, &stats) {
			if slices.Contains(l.kinds, u.Rule.Kind) { // else the format names no such callers, which is known before a run
				l.sum.Unused = append(l.sum.Unused, u.String())
			}
		}
	}
	l.sum.Digest = digestText(l.fold.Digest(l.fold.LogTime()))
}

// ahead sums up the effects of predicted closures and shares. One goroutine uses it.
type ahead struct {
	innocents innocents
	early     int64 // decisions about a closure that was not counted yet
	shares    int64 // decisions with a share
}

// Entry implements Events.
func (l *loop) Entry(e *schemas.Entry) {
	l.onEntry(e)
	if l.ahead != nil {
		l.ahead.innocents.count(e)
	}
}

// Published implements Events.
func (l *loop) Published(item *outbox.Item) {
	if l.ahead == nil {
		return
	}
	if item.Kind == outbox.Early {
		l.ahead.early++
	}
	if item.Decision.Share != nil {
		l.ahead.shares++
	}
}

// Applied implements Events.
func (l *loop) Applied(d *schemas.Decision, at int64) {
	if x := l.lastingOf(d.Rule); x != nil && (x.rule.Measure == rules.InFlight || x.pool != nil) {
		x.decided(d.Caller, at, d.Until)
	}
	l.held(d, at)
	if l.ahead != nil {
		l.ahead.innocents.apply(d, at)
	}
}

// Refused implements Events.
func (l *loop) Refused(caller *schemas.Caller, at int64) {
	if l.ahead != nil {
		l.ahead.innocents.refuse(caller, at)
	}
}

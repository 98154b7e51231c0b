package replay

import (
	"math"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// loop plays server and analyzer at once: a request is admitted or blocked by the closures that hold at its time, then
// counted, and what follows from the count becomes a closure lag later. One goroutine uses a loop.
type loop struct {
	fold    *analyzer.Fold
	kinds   []string
	reads   []reads // per kind: which entries some rule counts
	lag     int64
	gates   closures // of the enforcing rules
	shadows closures // of the others: what they would have closed
	seen    distinct
	entry   schemas.Entry
	sum     *Summary
	onClose func(Close) error
	onEntry func(*schemas.Entry)
	err     error // of onClose
}

// reads says which entries about a kind of caller are counted by any rule.
type reads struct{ arrivals, responses bool }

// newLoop returns the loop of a run whose configuration was checked.
func newLoop(c Config, sum *Summary) *loop {
	kinds := c.Format.Kinds()
	l := &loop{
		fold: analyzer.NewFold(c.Rules, analyzer.FoldOptions{NoStore: true}), kinds: kinds, reads: make([]reads, len(kinds)),
		lag: int64(c.Lag), sum: sum, onClose: c.OnClose, onEntry: c.OnEntry,
	}
	for i, kind := range kinds {
		for _, r := range c.Rules.ForKind(kind) {
			l.reads[i].responses = l.reads[i].responses || r.ReadsResponses()
			l.reads[i].arrivals = l.reads[i].arrivals || !r.ReadsResponses()
		}
	}
	return l
}

// request takes the next request in order of time. If it is blocked, it counts as that for the callers who are closed,
// and for the others not at all; see ARCHITECTURE.md, "What is recorded when".
func (l *loop) request(line *ingest.Line) {
	l.sum.Requests++
	var closed [ingest.MaxCallers + 1]bool
	blocked, shadowed := false, false
	for i, id := range line.IDs {
		if id == "" {
			continue
		}
		caller := schemas.Caller{Kind: l.kinds[i], ID: id}
		l.seen.add(i, id)
		closed[i] = l.gates.closed(caller, line.Time)
		blocked = blocked || closed[i]
		shadowed = shadowed || l.shadows.closed(caller, line.Time)
	}
	if blocked || line.Blocked {
		l.sum.Blocked++
	} else if shadowed {
		l.sum.ShadowBlocked++
	}
	for i, id := range line.IDs {
		if id != "" && (closed[i] == blocked || line.Blocked) {
			l.count(i, id, line, blocked || line.Blocked)
		}
	}
}

// count folds the entries of one caller of a request: its arrival, and its response at the same time.
func (l *loop) count(i int, id string, line *ingest.Line, blocked bool) {
	e := &l.entry
	e.Time, e.Kind, e.ID, e.Resource, e.Count, e.Blocked = line.Time, l.kinds[i], id, line.Resource, 1, blocked
	if l.reads[i].arrivals {
		e.Response, e.Status, e.Cost = false, 0, 0
		l.onEntry(e)
		l.fold.Entry(e)
	}
	if l.reads[i].responses {
		e.Response, e.Status, e.Cost = true, line.Status, line.Cost
		l.onEntry(e)
		l.fold.Entry(e)
	}
	if changes := l.fold.TakeChanges(); len(changes) > 0 {
		for i := range changes {
			l.change(&changes[i])
		}
	}
}

// change makes a closure of what the fold decided, in force from lag later on.
func (l *loop) change(c *analyzer.Change) {
	if c.Kind != policy.Closed && c.Kind != policy.Moved {
		return
	}
	in := span{from: later(max(c.At, c.Closure.CloseAt), l.lag), until: c.Closure.Until}
	shadow := c.Rule.Mode != schemas.ModeEnforce
	if shadow {
		l.shadows.close(c.Caller, in)
	} else {
		l.gates.close(c.Caller, in)
	}
	if c.Kind != policy.Closed {
		return
	}
	l.sum.Closes++
	if shadow {
		l.sum.ShadowCloses++
	}
	if l.err == nil {
		l.err = l.onClose(newClose(c))
	}
}

// finish adds to the summary what is known only in the end.
func (l *loop) finish() {
	stats := l.fold.Stats()
	l.sum.Callers, l.sum.CallersEstimated = l.seen.count()
	l.sum.Overshoot = stats.Overshoot
	l.sum.Uncounted = stats.Uncounted
	l.sum.Digest = digestText(l.fold.Digest(l.fold.LogTime()))
}

// later returns t + d, d ≥ 0, or the last time there is.
func later(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

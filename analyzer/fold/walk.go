package fold

import "github.com/509da70d/floodgate/schemas"

// MaxWalk is how many places of the table one piece of a walk visits at most: about 50 µs of work.
const MaxWalk = 1024

// Walk is a pass over the rows of a fold, in pieces, between which the fold goes on. The zero value is a walk that has not begun.
//
// Each piece is exact as of its own offset. A row that exists from the beginning of the walk to its end is visited once. A row that is
// dropped meanwhile may be missed. A row that is made meanwhile may be missed, or may be visited in addition to an earlier row of its
// caller. When the rules change, all rows move, and the walk begins again. One goroutine at a time may use a Walk.
type Walk struct {
	begun bool
	moves uint64 // of the fold when the walk began
	at    uint32 // rows below this index were visited
	end   uint32 // rows from this index on were made after the walk began
	row   Row    // the row that is being visited
}

// Moved reports whether the next piece of a walk will begin the walk again, because the rules have changed.
func (v View) Moved(w *Walk) bool { return w.begun && w.moves != v.table.moves }

// WalkRows calls yield with the rows in the next n places of the table, at most MaxWalk, as of at in Unix nanoseconds. yield must not keep
// the pointer. more reports whether the walk has more pieces. again reports that the rules have changed since the piece before: the walk
// has begun again, and rows that it yielded in earlier pieces do not count. A walk that has ended begins again, too.
func (v View) WalkRows(w *Walk, n int, at int64, yield func(*Row)) (more, again bool) {
	again = v.Moved(w)
	if !w.begun || again || w.at >= w.end {
		*w = Walk{begun: true, moves: v.table.moves, end: v.table.Made()}
	}
	for last := min(w.end, w.at+uint32(min(n, MaxWalk))); w.at < last; w.at++ {
		if r := v.table.row(w.at); r.rule >= 0 {
			v.show(r, at, &w.row)
			yield(&w.row)
		}
	}
	return w.at < w.end, again
}

// show fills shown with a row, as of at.
func (v View) show(r *row, at int64, shown *Row) {
	rule := v.rules.set.Rules[r.rule]
	shown.Rule, shown.ID, shown.Closure, shown.Since = rule, r.id, r.closure, r.since
	shown.Limit, shown.Unlimited = v.rules.limitOf(rule, r)
	if rule.Pool != nil && v.levelOver(rule, at) {
		if by, _ := v.rules.records.Of(schemas.Caller{Kind: rule.Kind, ID: r.id}).LimitBy(rule.Name); by == nil {
			shown.Limit, shown.Unlimited = LimitFor(rule, r.id)
		}
	}
	shown.Total = rule.Window.View(r.state, shown.Limit, at).Total
}

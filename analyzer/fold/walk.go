package fold

// MaxWalk is how many places of the table a walk visits at a time, at most: about 50 µs of work.
const MaxWalk = 1024

// Walk is a pass over the rows of a fold, in pieces, between which the fold goes on. The zero value has not begun.
//
// Each piece is exact as of its own offset. A row that is there from the walk's begin to its end is visited once. One that is
// dropped meanwhile may be missed. One that is made meanwhile may be missed, or visited in addition to its caller's earlier row.
// When the rules change, all rows move, and the walk begins again. One goroutine at a time may use a Walk.
type Walk struct {
	begun  bool
	moves  uint64 // of the fold when the walk began
	at     uint32 // rows below this index were visited
	end    uint32 // rows from here on were allocated later
	visits int    // rows that were visited since the walk began, or began again
	row    Row    // that is visited
}

// Visited returns how many rows have been visited since the walk began, or began again.
func (w *Walk) Visited() int { return w.visits }

// Moved reports whether a walk that has begun will begin again with its next piece, because the rules have changed.
func (v View) Moved(w *Walk) bool { return w.begun && w.moves != v.table.moves }

// WalkRows calls yield with the rows in the next n places of the table, at most MaxWalk, as of at in Unix nanoseconds. yield must not
// keep the pointer. more says that the walk has not ended. again says that the rules have changed since the piece before: the walk
// has begun again, and what it has yielded until then does not count. A walk that has ended begins again, too.
func (v View) WalkRows(w *Walk, n int, at int64, yield func(*Row)) (more, again bool) {
	again = v.Moved(w)
	if !w.begun || again || w.at >= w.end {
		*w = Walk{begun: true, moves: v.table.moves, end: v.table.Made()}
	}
	for last := min(w.end, w.at+uint32(min(n, MaxWalk))); w.at < last; w.at++ {
		if r := v.table.row(w.at); r.rule >= 0 {
			w.visits++
			v.show(r, at, &w.row)
			yield(&w.row)
		}
	}
	return w.at < w.end, again
}

// show writes a row as others see it.
func (v View) show(r *row, at int64, shown *Row) {
	rule := v.rules.set.Rules[r.rule]
	shown.Rule, shown.ID, shown.Closure, shown.Since = rule, r.id, r.closure, r.since
	shown.Limit, shown.Unlimited = v.rules.limitOf(rule, r)
	shown.Total = rule.Window.View(r.state, shown.Limit, at).Total
}

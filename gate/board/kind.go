package board

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Kind says what an Event is.
type Kind uint8

// Kinds of events. The zero value is none. The first four are changes.
const (
	None    Kind = iota
	Closed       // nothing was in force for the caller under the rule
	Changed      // a closure, its mode or the share differs from before
	Opened       // a decision ended it before its time
	Ended        // its time was over
	InForce      // it was in force when the subscription began, or after changes were lost
	Current      // everything in force has come; only changes follow
	Lost         // changes were missed: forget everything. What is in force comes again
)

// String returns "none", "closed", "changed", "opened", "ended", "in_force", "current" or "lost".
func (k Kind) String() string {
	return [...]string{"none", "closed", "changed", "opened", "ended", "in_force", "current", "lost"}[min(k, Lost)]
}

// Event is one change of what is in force, or a fact that a subscriber needs (InForce, Current, Lost).
type Event struct {
	Kind      Kind
	Number    uint64           // of the newest change that this event and those before it contain. A subscription can begin behind it
	At        time.Time        // of a change: when the board learnt of it
	Decision  schemas.Decision // of a change, and of InForce: the newest one about its rule and caller, or the one that has ended
	WasClosed bool             // of Changed and Opened: the decision before had a closure, and did not only give a share
	Missed    uint64           // of Lost: how many changes were missed at least
}

// end returns when the last part of a decision is over, in Unix nanoseconds: its closures and its share. It returns
// never for a decision that closes nothing.
func end(d *schemas.Decision) int64 {
	until := int64(never)
	if d.Until > d.CloseAt {
		until = d.Until
	}
	if d.Next.Until > d.Next.CloseAt {
		until = max(until, d.Next.Until)
	}
	if d.Share != nil {
		until = max(until, d.Share.Until)
	}
	return until
}

// clamp shortens closures that are longer than schemas.MaxClosure, from their beginning or from now.
func clamp(d *schemas.Decision, now int64) {
	d.Until = clamped(d.CloseAt, d.Until, now)
	d.Next.Until = clamped(d.Next.CloseAt, d.Next.Until, now)
}

func clamped(from, until, now int64) int64 {
	until = min(until, now+int64(schemas.MaxClosure))
	if last := from + int64(schemas.MaxClosure); last > from { // else the sum does not fit
		until = min(until, last)
	}
	return until
}

// newer reports whether the decision that is held is newer than another one of its partition. Decisions come again when a reader has
// lost its place.
func newer(held, d *schemas.Decision) bool {
	return held.Partition == d.Partition && (d.Epoch < held.Epoch || d.Epoch == held.Epoch && d.Seq < held.Seq)
}

// same reports whether two decisions about one rule and caller do the same.
func same(a, b *schemas.Decision) bool {
	if a.CloseAt != b.CloseAt || a.Until != b.Until || a.Early != b.Early || a.Held != b.Held || a.Mode != b.Mode || a.Next != b.Next {
		return false
	}
	if a.Share == nil || b.Share == nil {
		return a.Share == b.Share
	}
	return *a.Share == *b.Share
}

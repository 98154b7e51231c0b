package override

import (
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// ResetMemory is how long a reset is remembered after its Time, by log time. All other records are remembered until their Until. A copy
// that comes later has no effect.
const ResetMemory = 24 * time.Hour

// Record is a control record that is remembered: one in force, one that was undone, or a reset.
type Record struct {
	schemas.Control

	Offset   int64            // of the record in the control topic
	From     int64            // the first offset of requests[p] that was folded after the record was applied
	At       int64            // Unix nanoseconds: log time when it was applied; math.MinInt64 if nothing was folded before
	UndoneBy *schemas.Control // the record that undid it, or nil; not to be changed
}

// Undone reports whether the record was undone.
func (r *Record) Undone() bool { return r.UndoneBy != nil }

// End returns the log time from which on the record is forgotten.
func (r *Record) End() int64 {
	if r.Action == schemas.ControlReset {
		return integer.Add(r.Time, int64(ResetMemory))
	}
	return r.Until
}

// inForce reports whether a record that is remembered has an effect.
func (r *Record) inForce() bool { return !r.Undone() && r.Action != schemas.ControlReset }

// opens reports whether the record takes the limit of a rule away.
func (r *Record) opens(rule string) bool {
	return r.Action == schemas.ControlOpen && (r.Rule == "" || r.Rule == rule)
}

// copied returns a copy that does not change when the record is undone.
func (r *Record) copied() *Record {
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

// storedRecord is a Record, with what is known of its row in the store.
type storedRecord struct {
	Record

	stored    uint64 // rows.Sum of the row as last committed; 0 if it never was
	dirty     bool
	forgotten bool // it may still be in Records.list and on the list of the next checkpoint
}

// List holds the records in force about one caller, or the mode records in force, ordered by offset. It never changes: a change of Records
// makes a new one. The zero value has none.
type List struct{ records []*storedRecord }

// Len returns how many records there are.
func (l List) Len() int { return len(l.records) }

// with returns the list with one more record.
func (l List) with(r *storedRecord) List {
	at, _ := slices.BinarySearchFunc(l.records, r.Offset, compareOffset)
	return List{slices.Insert(slices.Clip(l.records), at, r)}
}

// without returns the list without a record.
func (l List) without(r *storedRecord) List {
	return List{slices.DeleteFunc(slices.Clone(l.records), func(o *storedRecord) bool { return o == r })}
}

// Limit returns the limit that the records give a caller under a rule, or 0, and whether they take its limit away. The newest limit record
// counts. A caller without a limit is still counted under the limit that it would have otherwise.
func (l List) Limit(rule string) (limit int64, unlimited bool) {
	by, opened := l.limitBy(rule)
	if by != nil {
		limit = by.Limit
	}
	return limit, opened != nil
}

// LimitBy returns a copy of the record that gives a caller its limit under a rule, and of the one that takes the limit away; nil where
// there is none.
func (l List) LimitBy(rule string) (limit, opened *Record) {
	limit, opened = l.limitBy(rule)
	return limit.copied(), opened.copied()
}

func (l List) limitBy(rule string) (limit, opened *Record) {
	for _, r := range slices.Backward(l.records) {
		switch {
		case r.opens(rule) && opened == nil:
			opened = &r.Record
		case r.Action == schemas.ControlLimit && r.Rule == rule:
			return &r.Record, opened
		}
	}
	return nil, opened
}

// closure returns the closure that the records give a caller, and the offset of the newest record that closes; the zero value and −1 if
// there is none. Only records after the newest one that opens the caller count. If several of them close, the closure that ends last
// counts.
func (l List) closure() (c policy.Closure, newest int64) {
	newest = -1
	for _, r := range slices.Backward(l.records) {
		if r.opens(schemas.ControlRule) {
			break
		}
		if r.Action != schemas.ControlClose {
			continue
		}
		newest = max(newest, r.Offset)
		if r.Until > c.Until || c.Nth == 0 {
			c = policy.Closure{CloseAt: r.Time, Until: r.Until, Nth: 1}
		}
	}
	return c, newest
}

// ClosedBy returns a copy of the record that gives the caller a closure; nil if none does.
func (l List) ClosedBy(c policy.Closure) *Record {
	for _, r := range slices.Backward(l.records) {
		if r.Action == schemas.ControlClose && r.Until == c.Until && r.Time == c.CloseAt {
			return r.copied()
		}
	}
	return nil
}

// Shadow returns a copy of the newest record that puts a rule into shadow mode; nil if none does.
func (l List) Shadow(rule string) *Record { return l.shadow(rule).copied() }

// Since returns when people put a rule into shadow mode, in Unix nanoseconds: the time of the newest record that does; 0 if none does.
func (l List) Since(rule string) int64 {
	if r := l.shadow(rule); r != nil {
		return r.Time
	}
	return 0
}

func (l List) shadow(rule string) *Record {
	for _, r := range slices.Backward(l.records) {
		if r.Rule == "" || r.Rule == rule {
			return &r.Record
		}
	}
	return nil
}

// modeAfter returns the mode of a closure of control records. newest is the offset of the newest record that closes. Only a mode record
// that is newer than it puts the closure into shadow mode.
func (l List) modeAfter(newest int64) schemas.Mode {
	if r := l.shadow(schemas.ControlRule); r != nil && r.Offset > newest {
		return schemas.ModeShadow
	}
	return schemas.ModeEnforce
}

func compareOffset(r *storedRecord, offset int64) int { return int(max(-1, min(1, r.Offset-offset))) }

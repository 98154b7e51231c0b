package bouncer

import (
	"cmp"
	"net/netip"
	"sync"
	"time"
	"unique"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// Bounds of a view.
const (
	maxInstances = 4096    // instances of bouncers that get deltas
	maxGone      = 1 << 20 // addresses that are open again

	instanceIdle = 10 * time.Minute // a bouncer that asked nothing for so long gets everything
	pieces       = 1024             // entries that a loop looks at before it releases the lock
	frozenFor    = int64(time.Second)

	// A bouncer that skips what it holds lets an address in at an end that it was given, even if the address has a later one now. So
	// the address is in "new" again from that end on: from a second before, because bouncers round, and until 30 s after, because
	// they need time to work off an answer.
	renewBefore = int64(time.Second)
	renewFor    = int64(30 * time.Second)

	firstRepeat = time.Minute // an instance that did not start here gets everything again after so long
)

// view is the closed addresses by the rules that a filter passes. It numbers their changes.
type view struct {
	board    *board.Board
	rules    ruleFilter
	shortest time.Duration
	filled   chan struct{} // closed when all that the board held was looked at
	maxGone  int           // the constant maxGone; tests set a lower one

	mu        sync.Mutex // protects what follows. Held while the board is asked, so that newer answers are applied later
	table     *table
	changed   uint64 // the number of the newest change
	floor     uint64 // addresses that were opened by a change up to this one may be forgotten
	instances map[identity]*instance
	latest    time.Time // the latest time that advance has seen
	used      time.Time // when a bouncer asked last
}

func newView(b *board.Board, rules ruleFilter, shortest time.Duration, start uint64) *view {
	return &view{
		board: b, rules: rules, shortest: shortest, filled: make(chan struct{}), maxGone: maxGone, table: newTable(),
		changed: start, floor: start, instances: map[identity]*instance{},
	}
}

// look updates the entry of an address by what closes it now. id is the text of the address. filling is true while the view or the board
// reads what is in force: then stale decisions count too.
func (v *view) look(addr netip.Addr, id string, now time.Time, filling bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lookAt(addr, id, now, filling)
}

func (v *view) lookAt(addr netip.Addr, id string, now time.Time, filling bool) {
	ds := v.board.Of(schemas.Caller{Kind: schemas.KindIP, ID: id})
	best, nextCheck := longestInForce(ds, now.UnixNano(), v.shortest, v.rules)
	before := v.changed
	defer func() {
		if v.changed != before && v.changed%pieces == 0 { // also while no bouncer asks
			v.forget(now)
		}
	}()
	slot := v.table.find(addr)
	if slot == none {
		if nextCheck == never {
			return
		}
		slot = v.table.insert(addr)
	}
	e := v.table.at(slot)
	closed := best.until > 0
	if same := closed == e.closed && (!closed || best.until == e.until); !same && !filling && v.frozen(e, best, now) {
		v.table.wake(slot, now.UnixNano()+frozenFor)
		return
	}
	v.apply(slot, best)
	if nextCheck == never && e.firstClosedAt == 0 {
		v.table.remove(slot)
		return
	}
	v.table.wake(slot, min(nextCheck, v.renew(slot, now.UnixNano())))
}

// renew gives an address to bouncers again whose closure outlasts an end that they may hold. It returns when to look again.
func (v *view) renew(slot int32, now int64) (nextCheck int64) {
	e := v.table.at(slot)
	switch from := e.firstEnd - renewBefore; {
	case !e.closed || e.firstEnd == 0:
		return never
	case now < from:
		return from
	}
	v.changed++
	v.table.touch(slot, v.changed)
	if now <= e.lastEnd+renewFor {
		return now + 1 // at the next poll
	}
	e.firstEnd, e.lastEnd = 0, 0
	return never
}

// lookAgain is lookAt of an address that is in the table.
func (v *view) lookAgain(slot int32, now time.Time) {
	addr := v.table.at(slot).address()
	v.lookAt(addr, addr.String(), now, false)
}

// frozen reports whether the decisions about an address are stale. Then its entry does not change, not even when the closure ends.
func (v *view) frozen(e *entry, best activeClosure, now time.Time) bool {
	partition := e.partition
	if best.until > 0 {
		partition = best.partition
	}
	return v.board.Freshness(int(partition), now) != gate.Fresh
}

// apply makes an entry hold a closure, or none.
func (v *view) apply(slot int32, best activeClosure) {
	e := v.table.at(slot)
	switch {
	case best.until == 0 && !e.closed, best.until == e.until && e.closed:
		return
	case best.until == 0:
		v.changed++
		e.closed = false
		v.table.closed--
	default:
		v.changed++
		if !e.closed {
			e.closed, e.closedAt = true, v.changed
			v.table.closed++
		}
		if e.firstClosedAt == 0 {
			e.firstClosedAt = v.changed
		} else {
			e.lastEnd = max(e.lastEnd, e.until)
			e.firstEnd = min(cmp.Or(e.firstEnd, e.until), e.until)
		}
		e.until, e.partition, e.rule = best.until, best.partition, unique.Make(best.rule)
	}
	v.table.touch(slot, v.changed)
}

// advance looks at all entries whose time has come. If the clock was put back, it looks at all.
func (v *view) advance(now time.Time) {
	v.mu.Lock()
	back := now.Before(v.latest)
	v.latest = now
	v.mu.Unlock()
	if back {
		v.lookAtAll(now)
	}
	for v.advancePiece(now) {
	}
}

// advancePiece looks at up to 1024 entries whose time has come, and reports whether there may be more.
func (v *view) advancePiece(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for range pieces {
		slot, at := v.table.first()
		if slot == none || at > now.UnixNano() {
			return false
		}
		v.lookAgain(slot, now)
	}
	return true
}

// lookAtAll looks at all entries, and at all that the board holds: changes may have been missed.
func (v *view) lookAtAll(now time.Time) {
	for from, more := int32(0), true; more; from += pieces {
		more = v.piece(from, func(slot int32) { v.lookAgain(slot, now) })
	}
	v.lookAtBoard(now, false)
}

// piece calls each for the slots from one on that are in use, and reports whether there are more.
func (v *view) piece(from int32, each func(slot int32)) (more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for slot := from; slot < from+pieces && slot < v.table.end(); slot++ {
		if v.table.used(slot) {
			each(slot)
		}
	}
	return from+pieces < v.table.end()
}

// fill looks at all that the board holds, for the first time.
func (v *view) fill(now time.Time) {
	defer close(v.filled)
	v.lookAtBoard(now, true)
}

// isFilled reports whether all that the board held was looked at.
func (v *view) isFilled() bool {
	select {
	case <-v.filled:
		return true
	default:
		return false
	}
}

func (v *view) lookAtBoard(now time.Time, filling bool) {
	for d := range v.board.All {
		if addr, ok := addressOf(d.Caller); ok {
			v.look(addr, d.Caller.ID, now, filling)
		}
	}
}

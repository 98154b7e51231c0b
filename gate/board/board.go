package board

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/509da70d/floodgate/schemas"
)

// Defaults and bounds.
const (
	defaultMaxClosures    = 1 << 20
	maxClosures           = 1 << 24 // an arena has room for more, also if all are as large as can be
	defaultMaxSubscribers = 256
	MaxChanges            = 4096 // changes that are kept
)

// Options are the options of a Board. The zero value is ready to use.
type Options struct {
	MaxClosures    int // callers, counted once for each rule that closes them; 0 is defaultMaxClosures, at most 1 << 24
	MaxSubscribers int // 0 is defaultMaxSubscribers

	// FirstChange is one less than the number of the first change. Set it to the start of the process in Unix nanoseconds: then a number
	// that a subscriber got from another process is not taken for a number of this board.
	FirstChange uint64
}

// Board holds the closures in force. New makes one. All methods may be called from any goroutine. Expire, After, All and subscriptions
// release the lock after each 1024 decisions.
type Board struct {
	options Options
	lost    atomic.Uint64 // how often a subscriber lost changes

	mu      sync.RWMutex // protects what follows
	table   *table
	parts   []partition
	loaded  int                // of parts
	changes [MaxChanges]change // a ring: change number n is at n % MaxChanges
	changed uint64             // the number of the newest change
	floor   uint64             // changes up to this number are not in the ring: they were before New or before the last Resize
	wake    chan struct{}      // closed and replaced after each change
	beats   chan struct{}      // closed and replaced after each heartbeat
	counts  counts
}

// change is an Event as the ring holds it.
type change struct {
	kind      Kind
	at        time.Time
	decision  schemas.Decision
	wasClosed bool
}

// counts are what Status reports.
type counts struct {
	dropped, outdated, foreign, restarts uint64
	subscribers                          int
	refused                              map[string]uint64
}

// New returns an empty Board.
func New(o Options) *Board {
	o.MaxClosures = min(cmp.Or(max(o.MaxClosures, 0), defaultMaxClosures), maxClosures)
	o.MaxSubscribers = cmp.Or(max(o.MaxSubscribers, 0), defaultMaxSubscribers)
	return &Board{
		options: o, table: newTable(0), changed: o.FirstChange, floor: o.FirstChange,
		wake: make(chan struct{}), beats: make(chan struct{}),
	}
}

// Apply applies decisions that schemas.Fence has accepted, in the order of the log. A decision is absolute: to apply it again changes
// nothing. It is in force until both its closures and its share are over. Apply drops and counts decisions of partitions that Resize did
// not announce, and decisions that are older than the one that the board holds.
//
// While a partition is loading, its decisions are not reported as changes, because they were in force before.
func (b *Board) Apply(ds []schemas.Decision, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.changed
	for i := range ds {
		d := ds[i]
		if d.Partition < 0 || int(d.Partition) >= len(b.parts) {
			b.counts.foreign++
			continue
		}
		clamp(&d, now.UnixNano())
		if kind, wasClosed := b.apply(&d, now.UnixNano()); kind != None && b.parts[d.Partition].loaded {
			b.note(kind, d, wasClosed, now)
		}
	}
	if b.changed != before {
		b.notify(&b.wake)
	}
}

// apply applies one decision, and returns what changed; None if nothing did. wasClosed is that of an Event.
func (b *Board) apply(d *schemas.Decision, now int64) (kind Kind, wasClosed bool) {
	var room keyRoom
	of := callerOf(d.Caller, &room)
	slot, held := b.table.find(&of, d.Rule)
	over := end(d) <= now
	if !held {
		switch {
		case over:
			return None, false
		case b.table.len() >= b.options.MaxClosures || len(of.key) > len(room):
			b.drop(d.Partition)
			return None, false
		}
		b.table.insert(&of, d)
		return Closed, false
	}
	var old schemas.Decision
	before := b.table.read(b.table.at(slot), &old)
	if newer(&old, d) {
		b.counts.outdated++
		return None, false
	}
	wasClosed = old.CloseAt < old.Until || old.Next.CloseAt < old.Next.Until
	if over {
		b.table.remove(slot)
		return Opened, wasClosed
	}
	b.table.update(slot, &before, &of, d)
	if same(&old, d) {
		return None, false
	}
	return Changed, wasClosed
}

// note adds a change to the ring. The caller notifies.
func (b *Board) note(kind Kind, d schemas.Decision, wasClosed bool, now time.Time) {
	b.changed++
	d.Rule, d.Caller.Kind = unique.Make(d.Rule).Value(), unique.Make(d.Caller.Kind).Value() // they pin no memory of a batch
	d.Caller.ID = strings.Clone(d.Caller.ID)
	b.changes[b.changed%MaxChanges] = change{kind, now, d, wasClosed}
}

// notify wakes everybody who waits at a channel.
func (*Board) notify(c *chan struct{}) {
	close(*c)
	*c = make(chan struct{})
}

// expireAtOnce is how many closures Expire removes before it lets others in.
const expireAtOnce = 1024

// Expire removes the closures whose time is over at now, and notes that they have ended, the first that ended first.
func (b *Board) Expire(now time.Time) {
	for b.expire(now) {
	}
}

// expire removes at most expireAtOnce closures that have ended, and reports whether there may be more.
func (b *Board) expire(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := range expireAtOnce {
		slot, ok := b.table.firstEnd()
		if !ok || b.table.at(slot).until > now.UnixNano() {
			if n > 0 {
				b.notify(&b.wake)
			}
			return false
		}
		d := b.table.decision(b.table.at(slot))
		b.table.remove(slot)
		b.note(Ended, d, false, now)
	}
	b.notify(&b.wake)
	return true
}

// Of returns the decisions in force about a caller, and those that begin later, sorted by the names of their rules. The caller is
// canonical, as recorders write it.
func (b *Board) Of(c schemas.Caller) []schemas.Decision {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var ds []schemas.Decision
	var room keyRoom
	of := callerOf(c, &room)
	for s := b.table.search(&of); ; {
		slot, _, ok := s.next()
		if !ok {
			break
		}
		ds = append(ds, b.table.decision(b.table.at(slot)))
	}
	slices.SortFunc(ds, func(x, y schemas.Decision) int { return cmp.Compare(x.Rule, y.Rule) })
	return ds
}

// Len returns how many decisions are in force.
func (b *Board) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.table.len()
}

// Numbered is a decision in force with its number: closures are numbered in the order in which the board learnt of them, and
// keep their numbers while they are in force.
type Numbered struct {
	Number   uint64
	Decision schemas.Decision
}

// pieces is how many places a reader looks at before it releases the lock.
const pieces = 1024

// After returns decisions in force whose numbers are higher than number, in the order of their numbers: at most limit of them, and at
// most 1024. Pass the number of the last one to get the next page. An empty page means that there are no more.
func (b *Board) After(number uint64, limit int) (page []Numbered) {
	limit = min(limit, pieces)
	for more := limit > 0; more && len(page) == 0; {
		number, more = b.piece(number, func(n Numbered) bool {
			page = append(page, n)
			return len(page) < limit
		})
	}
	return page
}

func (b *Board) piece(number uint64, each func(Numbered) bool) (uint64, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.table.visitFrom(number, pieces, func(c *closure) bool { return each(Numbered{c.number, b.table.decision(c)}) })
}

// All calls yield for the decisions in force, in the order in which the board learnt of them, until it returns false. The board
// changes meanwhile. A decision that is in force from the beginning to the end comes exactly once, in its newest form. A decision that
// arrives after the call began does not come.
func (b *Board) All(yield func(schemas.Decision) bool) {
	b.mu.RLock()
	last, number := b.table.arrived, uint64(0)
	b.mu.RUnlock()
	for {
		page := b.After(number, pieces)
		for i := range page {
			number = page[i].Number
			if number > last || !yield(page[i].Decision) {
				return
			}
		}
		if len(page) == 0 {
			return
		}
	}
}

// Changes returns the newest changes, at most limit and at most MaxChanges of them, the newest first.
func (b *Board) Changes(limit int) []Event {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var list []Event
	for n := b.changed; n > b.oldest() && len(list) < limit; n-- {
		list = append(list, b.event(n))
	}
	return list
}

// oldest returns a number: the ring has all changes with higher numbers.
func (b *Board) oldest() uint64 {
	if b.changed-b.floor > MaxChanges {
		return b.changed - MaxChanges
	}
	return b.floor
}

// event returns a change of the ring.
func (b *Board) event(number uint64) Event {
	c := &b.changes[number%MaxChanges]
	return Event{Kind: c.kind, Number: number, At: c.at, Decision: c.decision, WasClosed: c.wasClosed}
}

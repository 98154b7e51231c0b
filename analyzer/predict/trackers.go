package predict

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/index"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// tracker is what predictions need of a row, from half of its limit on: 128 bytes. It is not stored, and no count depends on it.
type tracker struct {
	pace      policy.Pace
	announced policy.Announced
	held      *policy.Held    // nil unless the rule holds a part of the limit for requests in flight
	lastNear  int64           // log time at which the row was last seen near its limit
	share     *policy.Sharing // nil until the row closes
	row       uint32          // its number
	used      bool            // false while the tracker is free
	touched   bool            // it is in trackers.touched, also while the tracker is free
}

// trackers is the table of trackers, found by their rows. If it is full, a row takes the tracker of a row that is further from its limit.
// Each tracker takes 16 more bytes in the index, and 8 in the list of those that were touched. The zero value is empty.
type trackers struct {
	index.Slab[tracker]

	index   index.Index
	used    int        // trackers with a row
	touched []*tracker // since the last TakePlans, in log order; some of them may be free
	next    uint32     // the one that sweep looks at next
	random  integer.Random
	shares  int // trackers with a share
}

const (
	maxTrackers  = 65_536
	trackerTries = 4 // trackers that are compared; the one whose row matters least is freed
	sweptTracked = 8 // trackers that each TakePlans checks, in addition to as many as were touched

	// A row that has been below half of its limit for so long is not tracked any more. Under a longer window it is twice the length of the
	// window, but a minute at most.
	trackerRest    = 10 * time.Second
	maxTrackerRest = time.Minute
)

// emptied returns an empty table that continues the random sequence of t.
func (t *trackers) emptied() trackers { return trackers{random: t.random} }

// hashOf returns a hash of a row's number. Nobody can choose that number.
func hashOf(row uint32) uint64 { return (uint64(row) + 1) * 0x9e3779b97f4a7c15 }

func (t *trackers) home(i uint32) uint32 { return index.Home(hashOf(t.At(i).row)) }

// number returns the number of the tracker of a row, if it has one.
func (t *trackers) number(row uint32) (uint32, bool) {
	p := t.index.Probe(hashOf(row))
	i, ok := p.Next()
	for ; ok && t.At(i).row != row; i, ok = p.Next() {
	}
	return i, ok
}

// find returns the tracker of a row, or nil.
func (t *trackers) find(row uint32) *tracker {
	if i, ok := t.number(row); ok {
		return t.At(i)
	}
	return nil
}

// add gives a row a tracker, which it must not have.
func (t *trackers) add(row uint32) *tracker {
	i := t.Take()
	tr := t.At(i)
	*tr = tracker{row: row, used: true, touched: tr.touched}
	t.used++
	t.index.Add(hashOf(row), i, t.home)
	return tr
}

// remove frees the tracker of a row, if it has one.
func (t *trackers) remove(row uint32) {
	i, ok := t.number(row)
	if !ok {
		return
	}
	if t.At(i).share != nil {
		t.shares--
	}
	t.index.Remove(i, t.home)
	*t.At(i) = tracker{touched: t.At(i).touched}
	t.Give(i)
	t.used--
}

// putShare gives a tracker a share, which may be nil. It had none.
func (t *trackers) putShare(tr *tracker, s *policy.Sharing) {
	if tr.share = s; s != nil {
		t.shares++
	}
}

// touch puts a tracker on the list for the next TakePlans.
func (t *trackers) touch(tr *tracker) {
	if !tr.touched {
		tr.touched = true
		t.touched = append(t.touched, tr)
	}
}

// track gives a row a tracker, or returns nil if there is no room.
func (p *Predictor) track(row uint32, now int64) *tracker {
	if p.trackers.used >= maxTrackers && !p.makeRoom(row, now) {
		return nil
	}
	tr := p.trackers.add(row)
	tr.lastNear = now
	return tr
}

// makeRoom frees the tracker of a row that matters less than the given row, if its draws find one.
func (p *Predictor) makeRoom(row uint32, now int64) bool {
	t := &p.trackers
	least, found, lowest := uint32(0), false, p.rank(row, now)
	for range trackerTries {
		other := t.At(uint32(t.random.Next() % uint64(t.Made()))) // < 2^32; it is in use, as all are
		if k := p.rank(other.row, now); k.Compare(lowest) < 0 {
			least, found, lowest = other.row, true, k
		}
	}
	if found {
		t.remove(least)
	}
	return found
}

// rank returns how much a row matters: see policy.Rank.
func (p *Predictor) rank(row uint32, now int64) policy.Rank {
	r := p.read(row)
	return policy.RankOf(r.Rule, r.State, r.Closure, r.Limit, r.Unlimited, now)
}

// sweep checks the next n trackers, and frees those whose rows have been far from their limits for long.
func (p *Predictor) sweep(n int, now int64) {
	t := &p.trackers
	for range min(n, int(t.Made())) {
		if t.next >= t.Made() {
			t.next = 0
		}
		tr := t.At(t.next)
		t.next++
		if !tr.used {
			continue
		}
		r := p.read(tr.row)
		if r.near(now) || tr.held != nil && tr.held.Covers(now) {
			tr.lastNear = now
		} else if now-tr.lastNear > int64(restOf(r.Rule, now)) {
			t.remove(tr.row)
		}
	}
}

// near reports whether a row is at half of its limit or beyond, or closed.
func (r *Row) near(now int64) bool {
	return r.Closure.ClosedAt(now) || 2*r.Rule.Window.View(r.State, r.Limit, now).Total >= r.Rule.Window.Capacity(r.Limit)
}

// restOf returns for how long a row of a rule may be below half of its limit before it is not tracked any more.
func restOf(r *rules.Rule, now int64) time.Duration {
	return min(max(trackerRest, 2*time.Duration(min(r.Window.Length(now), int64(maxTrackerRest)))), maxTrackerRest)
}

package fold

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/index"
	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// tracker is what predictions need of a row, from half of its limit on: 128 bytes. It is not stored, and nothing that is counted
// depends on it.
type tracker struct {
	row       *row // nil while the tracker is free
	pace      policy.Pace
	announced policy.Announced
	warm      int64           // log time at which the row was last seen near its limit
	share     *policy.Sharing // nil until the row closes
	touched   bool            // since the last TakePlans, also while the tracker is free
}

// trackers is the table of trackers, found by their rows. If it is full, a row takes the tracker of another that is further from
// its limit. A tracker takes 16 bytes more for the index, and 8 on the list of those that were touched. The zero value is empty.
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
	trackerTries = 4 // trackers of which the one that matters least makes room
	sweptTracked = 8 // trackers that each TakePlans checks, and as many as were touched

	// A row that has been below half of its limit for so long is not tracked any more; under a longer window for twice its
	// length, but a minute at most.
	trackerRest    = 10 * time.Second
	maxTrackerRest = time.Minute
)

// emptied returns an empty table that draws on.
func (t *trackers) emptied() trackers { return trackers{random: t.random} }

func (t *trackers) home(i uint32) uint32 { return t.At(i).row.home }

// place returns the number of the tracker of a row, which must have one.
func (t *trackers) place(r *row) uint32 {
	p := t.index.Probe(uint64(r.home)) // whole homes are compared in place
	i, _ := p.Next()
	for t.At(i).row != r {
		i, _ = p.Next()
	}
	return i
}

// find returns the tracker of a row, or nil.
func (t *trackers) find(r *row) *tracker {
	if r.beside&hasTracker == 0 {
		return nil
	}
	return t.At(t.place(r))
}

// add gives a row a tracker, which it must not have.
func (t *trackers) add(r *row) *tracker {
	i := t.Take()
	tr := t.At(i)
	*tr = tracker{row: r, touched: tr.touched}
	r.beside |= hasTracker
	t.used++
	t.index.Add(uint64(r.home), i, t.home) // whole homes are compared in place
	return tr
}

// remove frees the tracker of a row, if it has one.
func (t *trackers) remove(r *row) {
	if r.beside&hasTracker == 0 {
		return
	}
	i := t.place(r)
	if t.At(i).share != nil {
		t.shares--
	}
	t.index.Remove(i, t.home)
	*t.At(i) = tracker{touched: t.At(i).touched}
	r.beside &^= hasTracker
	t.Give(i)
	t.used--
}

// touch puts a tracker on the list for the next TakePlans.
func (t *trackers) touch(tr *tracker) {
	if !tr.touched {
		tr.touched = true
		t.touched = append(t.touched, tr)
	}
}

// tracker returns the tracker of a row, which is a new one if it had none; nil if there is no room.
func (f *Fold) tracker(r *row) *tracker {
	if tr := f.trackers.find(r); tr != nil {
		return tr
	}
	if f.trackers.used >= maxTrackers && !f.makeTrackerRoom(r) {
		return nil
	}
	tr := f.trackers.add(r)
	tr.warm = f.now
	return tr
}

// makeTrackerRoom frees the tracker of a row that is further from its limit than r, if it draws one.
func (f *Fold) makeTrackerRoom(r *row) bool {
	t := &f.trackers
	least, lowest := (*row)(nil), f.rank(r)
	for range trackerTries {
		other := t.At(uint32(t.random.Next() % uint64(t.Made()))).row // < 2^32
		if other == nil {
			continue
		}
		if k := f.rank(other); k.compare(lowest) < 0 {
			least, lowest = other, k
		}
	}
	if least != nil {
		t.remove(least)
	}
	return least != nil
}

// sweepTrackers checks the next n trackers, and frees those whose rows have been far from their limits for long.
func (f *Fold) sweepTrackers(n int) {
	t := &f.trackers
	for range min(n, int(t.Made())) {
		if t.next >= t.Made() {
			t.next = 0
		}
		tr := t.At(t.next)
		t.next++
		if tr.row == nil {
			continue
		}
		rule := f.set.Rules[tr.row.rule]
		if f.near(rule, tr.row) {
			tr.warm = f.now
		} else if f.now-tr.warm > int64(restOf(rule, f.now)) {
			t.remove(tr.row)
		}
	}
}

// near reports whether a row is at half of its limit or beyond, or closed.
func (f *Fold) near(rule *rules.Rule, r *row) bool {
	limit, _ := f.limitOf(rule, r)
	return r.closure.ClosedAt(f.now) || 2*rule.Window.View(r.state, limit, f.now).Total >= rule.Window.Capacity(limit)
}

// restOf returns for how long a row of a rule may be below half of its limit before it is not tracked any more.
func restOf(r *rules.Rule, now int64) time.Duration {
	return min(max(trackerRest, 2*time.Duration(min(r.Window.Length(now), int64(maxTrackerRest)))), maxTrackerRest)
}

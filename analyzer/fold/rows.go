package fold

import (
	"math"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/store/rows"
)

// Dirty returns how many rows the next TakeDirty returns at most.
func (f *Fold) Dirty() int {
	return len(f.table.dirty) + len(f.pools.list) + len(f.table.losses.changed) + len(f.table.removed) + len(f.dedupe.changed) + len(f.dedupe.removed) + f.rules.records.Dirty()
}

// TakeDirty returns the rows that have changed since it was last called. The store commits them with the next offset. Deletions come last:
// a store that applies them in a later transaction holds only some expired rows too many until then.
func (f *Fold) TakeDirty() []rows.Change {
	changes := make([]rows.Change, 0, f.Dirty())
	var room []byte
	for _, i := range f.table.dirty {
		r := f.table.row(i)
		if r.rule < 0 || !r.dirty {
			r.dirty = false
			continue // dropped since
		}
		if cap(room) < commonRow {
			room = make([]byte, 0, 64<<10)
		}
		key, value := f.table.encode(room, r)
		room, value = value[len(value):], slices.Clip(value)
		changes = append(changes, rows.Change{Key: key, Value: value, Old: r.stored})
		r.stored, r.dirty = rows.Sum(key, value), false
	}
	f.table.dirty = f.table.dirty[:0]
	changes = f.rules.records.Take(f.table.losses.take(f.takePools(changes)))
	changes = f.dedupe.take(changes)
	for _, removed := range []rows.Removed{f.table.removed, f.rules.records.Removed(), f.dedupe.removed} {
		for key, stored := range removed {
			changes = append(changes, rows.Change{Key: []byte(key), Old: stored})
		}
		clear(removed)
	}
	return changes
}

// commonRow is a size in bytes that most rows do not exceed. An estimate is enough, because a longer row gets memory of its own.
const commonRow = 256

func encodeRow(dst []byte, rule *rules.Rule, id string, v *StoredRow) (key, value []byte) {
	start := len(dst)
	dst = AppendRowKey(dst, rule.Name, rule.Kind, id)
	end := len(dst)
	dst = v.AppendTo(dst)
	return dst[start:end:end], dst[end:]
}

// take appends the senders that changed since the last checkpoint, for the store.
func (d *dedupe) take(changes []rows.Change) []rows.Change {
	for _, id := range d.changed {
		s := d.rows[id]
		if s == nil || !s.dirty {
			continue // evicted since
		}
		key, value := id.key(), s.value()
		changes = append(changes, rows.Change{Key: key, Value: value, Old: s.stored})
		s.stored, s.dirty = rows.Sum(key, value), false
	}
	d.changed = d.changed[:0]
	return changes
}

// Restore puts a stored row into a fold that has folded nothing yet. Call Resume after the last row. If the rule of a row no longer exists,
// or counts differently now, the row is dropped, and the next checkpoint deletes it from the store.
func (f *Fold) Restore(key, value []byte) error {
	sum := rows.Sum(key, value)
	switch KindOf(key) {
	case EventRow:
		return nil
	case LossRow:
		return f.table.losses.restore(key, value, sum)
	case PoolRow:
		return f.restorePool(key, value, sum)
	case ControlRow:
		return f.table.restoreRecord(key, value, sum)
	case ProducerRow, SourceRow:
		return f.dedupe.restore(key, value, sum)
	}
	name, kind, id, err := ParseRowKey(string(key))
	if err != nil {
		return err
	}
	rule := f.rules.index(name)
	if rule >= 0 && f.rules.set.Rules[rule].Kind != kind {
		rule = -1
	}
	v, err := f.table.readRow(key, value, rule)
	if err != nil {
		return err
	}
	if v.State == nil {
		f.table.removed.Add(key, sum)
		return nil
	}
	i, row := f.table.insert(rule, strings.Clone(id))
	if f.table.takeRow(row, &v) {
		f.table.markDirty(i, row)
	}
	row.stored = sum
	return nil
}

// Resume ends restoring. logTime is log time when the restored rows were committed.
func (f *Fold) Resume(logTime int64) {
	if logTime > math.MinInt64 {
		f.table.now = logTime
		f.table.wheel.start(logTime)
	}
	f.table.trim()
	f.table.reschedule()
	f.findAbove()
	f.pools.setTurn(f.table.now)
}

// liveState returns a state as of a time: nil, if nothing depends on it any more. Requests in flight may keep a row longer than its window.
func liveState(r *rules.Rule, s window.State, at int64) window.State {
	if r.Window.Expiry(s) <= at {
		return nil
	}
	return s
}

// Digest sums up all rows that anything can still depend on at a log time. Their order does not matter. The digests of the folds of several
// partitions of one log add up (modulo 2^64) to the digest of one fold over the whole log, if none of them lost any weight. Control records
// about all partitions are in the digest of partition 0.
func (f *Fold) Digest(at int64) uint64 {
	sum := f.rules.records.Digest(at, f.opts.Partition == 0)
	f.table.each(func(_ uint32, r *row) bool {
		if f.table.expiry(r) <= at {
			return true
		}
		rule, v := f.rules.set.Rules[r.rule], f.table.stored(r)
		if r.closure.Expiry(rule) <= at { // another fold, whose log time is ahead, may have dropped the row with its closure
			v.Closure, v.byDemand, v.steps, v.goesOn = policy.Closure{}, false, nil, false
		}
		if rule.AtArrival || rule.Measure == rules.InFlight {
			v.State = liveState(rule, v.State, at)
		}
		if v.hold != nil && v.hold.Expiry() <= at {
			v.hold = nil
		}
		if v.early != nil {
			v.early = f.table.liveEarly(r, v.early, at)
		}
		sum += rows.Sum(encodeRow(nil, rule, r.id, &v))
		return true
	})
	return sum
}

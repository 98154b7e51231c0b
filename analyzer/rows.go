package analyzer

import (
	"math"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
)

// Dirty returns how many rows the next TakeDirty returns at most.
func (f *Fold) Dirty() int {
	return len(f.dirty) + len(f.removed) + len(f.dedupe.changed) + len(f.dedupe.removed)
}

// TakeDirty returns what has changed since it was last called, for the store to commit with the next offset. Deletions
// come last: a store that does them later still holds nothing but rows that have expired.
func (f *Fold) TakeDirty() []store.Change {
	changes := make([]store.Change, 0, f.Dirty())
	var room []byte
	for _, i := range f.dirty {
		r := f.table.row(i)
		if r.rule < 0 || !r.dirty {
			continue // dropped since
		}
		if cap(room) < commonRow {
			room = make([]byte, 0, 64<<10)
		}
		key, value := f.encode(room, r)
		room, value = value[len(value):], slices.Clip(value)
		changes = append(changes, store.Change{Key: key, Value: value, Old: r.stored})
		r.stored, r.dirty = store.Sum(key, value), false
	}
	f.dirty = f.dirty[:0]
	changes = f.dedupe.take(changes)
	for _, removed := range []removals{f.removed, f.dedupe.removed} {
		for key, stored := range removed {
			changes = append(changes, store.Change{Key: []byte(key), Old: stored})
		}
		clear(removed)
	}
	return changes
}

// commonRow is as many bytes as most rows take: a quick guess is enough, as others get room of their own.
const commonRow = 256

// encode encodes a row behind dst, and leaves what room there is to be had behind the value.
func (f *Fold) encode(dst []byte, r *row) (key, value []byte) {
	rule := f.set.Rules[r.rule]
	start := len(dst)
	dst = appendRowKey(dst, rule.Name, rule.Kind, r.id)
	end := len(dst)
	dst = appendRowValue(dst, rule.Shape(), r)
	return dst[start:end:end], dst[end:]
}

// take appends the senders that changed.
func (d *dedupe) take(changes []store.Change) []store.Change {
	for _, id := range d.changed {
		s := d.rows[id]
		if s == nil || !s.dirty {
			continue // evicted since
		}
		key, value := id.key(), s.value()
		changes = append(changes, store.Change{Key: key, Value: value, Old: s.stored})
		s.stored, s.dirty = store.Sum(key, value), false
	}
	d.changed = d.changed[:0]
	return changes
}

// Restore puts a stored row back into a fold that has folded nothing yet; Resume follows the last one. A row whose rule
// is gone or counts otherwise now is dropped, and deleted from the store by the next checkpoint.
func (f *Fold) Restore(key, value []byte) error {
	sum := store.Sum(key, value)
	if len(key) > 0 && key[0] != windowPrefix {
		return f.dedupe.restore(key, value, sum)
	}
	name, kind, id, err := parseRowKey(string(key))
	if err != nil {
		return err
	}
	rule := f.ruleIndex(name)
	if rule >= 0 && f.set.Rules[rule].Kind != kind {
		rule = -1
	}
	closure, state, err := f.readRow(key, value, rule)
	if err != nil {
		return err
	}
	if state == nil {
		f.removed.add(key, sum)
		return nil
	}
	i := f.table.insert(rowHash(f.opts.Key.Hash(kind, id), rule), rule, strings.Clone(id))
	row := f.table.row(i)
	row.set(state)
	row.closure, row.stored = closure, sum
	return nil
}

func (f *Fold) ruleIndex(name string) int32 {
	for i, r := range f.set.Rules {
		if r.Name == name {
			return int32(i)
		}
	}
	return -1
}

// Resume ends restoring: it sets log time to what it was when the restored rows were committed.
func (f *Fold) Resume(logTime int64) {
	if logTime > math.MinInt64 {
		f.now = logTime
		f.wheel.start(logTime)
	}
	f.table.each(func(i uint32, r *row) bool {
		f.wheel.schedule(i, f.expiry(r))
		return true
	})
}

// Digest sums up all rows that anything can still depend on at the given log time, in any order: folds of several
// partitions of one log add up (modulo 2^64) to the digest of one fold over the whole log.
func (f *Fold) Digest(at int64) uint64 {
	var sum uint64
	f.table.each(func(_ uint32, r *row) bool {
		if f.expiry(r) <= at {
			return true
		}
		live := *r
		if r.closure.Expiry(f.set.Rules[r.rule]) <= at {
			live.closure = policy.Closure{} // gone with its row, where another fold's log time went ahead
		}
		sum += store.Sum(f.encode(nil, &live))
		return true
	})
	return sum
}

// Row is one rule and caller as the fold holds it.
type Row struct {
	Rule    *rules.Rule
	ID      string
	Closure policy.Closure
	Total   int64 // weight in the window at the time that was asked about
	Limit   int64
}

// Rows calls yield with every row, as of at in Unix nanoseconds, in no particular order, until it returns false.
func (f *Fold) Rows(at int64, yield func(Row) bool) {
	f.table.each(func(_ uint32, r *row) bool {
		rule := f.set.Rules[r.rule]
		limit, _ := limitFor(rule, r.id)
		return yield(Row{
			Rule: rule, ID: r.id, Closure: r.closure, Limit: limit,
			Total: rule.Window.View(r.state, limit, at).Total,
		})
	})
}

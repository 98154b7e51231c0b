package eventlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/rows"
)

// Events are rows of the store whose keys begin with fold.EventRow. The row whose key is that byte alone has the version: if it exists, all
// events before the checkpoint are in the topic or in the store. The keys of the other rows end in the number of an event, and their values
// are its JSON.
const completeVersion = 1

var errRow = errors.New("bad row of events in store")

// completeMarker is the row that says that the store has all events that the topic lacks.
type completeMarker struct {
	known  bool   // the store was committed together with events
	stored uint64 // rows.Sum of the row; 0 if the store has none
}

func completeKey() []byte { return []byte{byte(fold.EventRow)} }

func keyOf(number uint64) []byte { return binary.BigEndian.AppendUint64(completeKey(), number) }

// TakeDirty returns the rows that the next checkpoint commits: first those that it sets, and then those that it deletes.
func (q *Queue) TakeDirty() (set, removed []rows.Change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.complete.stored == 0 {
		c := rows.Change{Key: completeKey(), Value: []byte{completeVersion}}
		q.complete.stored = rows.Sum(c.Key, c.Value)
		set = append(set, c)
	}
	for i := range q.items {
		it := &q.items[i]
		if !it.dirty {
			continue
		}
		e := it.identified()
		c := rows.Change{Key: keyOf(it.number), Value: e.Encode(), Old: it.stored}
		it.stored, it.dirty = rows.Sum(c.Key, c.Value), false
		set = append(set, c)
	}
	removed, q.removed = q.removed, nil
	return set, removed
}

// Forget empties the queue, because there is no topic of events any more. It returns the rows that the next checkpoint deletes.
func (q *Queue) Forget() (removed []rows.Change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.complete.stored != 0 {
		q.removed = append(q.removed, rows.Change{Key: completeKey(), Old: q.complete.stored})
	}
	for len(q.items) > 0 {
		q.drop()
	}
	removed, q.removed, q.complete = q.removed, nil, completeMarker{}
	return removed
}

// Dirty reports whether the store still has rows of events that are acknowledged.
func (q *Queue) Dirty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.removed) > 0
}

// Restore adds a row of the store. The rows may come in any order. Call Begin after the last one.
func (q *Queue) Restore(key, value []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	sum := rows.Sum(key, value)
	switch len(key) {
	case 1:
		if len(value) == 0 || value[0] != completeVersion {
			return fmt.Errorf("%w: got version %v, want %d", errRow, value, completeVersion)
		}
		q.complete = completeMarker{known: true, stored: sum}
		return nil
	case 9:
	default:
		return fmt.Errorf("%w: got a key of %d bytes, want 1 or 9", errRow, len(key))
	}
	e, err := event.Decode(value)
	if err != nil {
		return fmt.Errorf("%w: %w", errRow, err)
	}
	it := item{number: binary.BigEndian.Uint64(key[1:]), event: e, firstOffset: e.Offset, bytes: sizeOf(&e), stored: sum}
	if e.Type == event.Gap {
		it.firstOffset = e.From
	}
	q.items = append(q.items, it)
	q.bytes += it.bytes
	q.next = max(q.next, it.number+1)
	return nil
}

// Complete reports whether the restored store has all events before its checkpoint that are not in the topic. A store that was last
// committed without a topic of events does not.
func (q *Queue) Complete() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.complete.known
}

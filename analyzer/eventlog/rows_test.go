package eventlog

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/rows"
)

// table is the rows of a store, which knows what it replaces.
type table map[string][]byte

func (s table) commit(t *testing.T, q *Queue) {
	t.Helper()
	set, removed := q.TakeDirty()
	s.apply(t, append(set, removed...))
}

func (s table) apply(t *testing.T, changes []rows.Change) {
	t.Helper()
	for _, c := range changes {
		old, is := s[string(c.Key)]
		if is && rows.Sum(c.Key, old) != c.Old || !is && c.Old != 0 {
			t.Fatalf("row %x: got the sum %x of what it replaces, want that of %q", c.Key, c.Old, old)
		}
		if fold.KindOf(c.Key) != fold.EventRow {
			t.Fatalf("got the key %x, want one of events", c.Key)
		}
		if s[string(c.Key)] = c.Value; c.Value == nil {
			delete(s, string(c.Key))
		}
	}
}

// load returns a queue with the rows of the store, as an owner that starts has it.
func (s table) load(t *testing.T, from int64) *Queue {
	t.Helper()
	q := NewQueue()
	for _, key := range slices.Collect(maps.Keys(s)) { // in any order
		if err := q.Restore([]byte(key), s[key]); err != nil {
			t.Fatal(err)
		}
	}
	q.Begin(from)
	return q
}

// TestAStoreHasWhatTheTopicLacks: whenever the owner dies, each event that was added before the checkpoint was acknowledged, or comes
// back, in order.
func TestAStoreHasWhatTheTopicLacks(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		q, s := begun(0), table{}
		written := make(map[string]bool)
		added, committed := int64(0), int64(0)
		for range 400 {
			switch random.IntN(5) {
			case 0, 1:
				q.Add(closed(added))
				added++
				q.Reach(added)
			case 2:
				list, last := q.Batch(1 + random.IntN(4))
				for i := range list {
					written[list[i].ID] = true
				}
				if random.IntN(3) > 0 { // or the answer is lost
					q.Ack(last)
				}
			case 3:
				s.commit(t, q)
				committed = added
			case 4:
				if random.IntN(10) > 0 {
					continue
				}
				q, added = s.load(t, 0), committed // killed: it folds on from the checkpoint
				q.Reach(added)
			}
		}
		pending, _ := q.Batch(1000)
		for i := range pending {
			written[pending[i].ID] = true
			if i > 0 && pending[i].Offset < pending[i-1].Offset {
				t.Fatalf("got %d behind %d, want the order of the log", pending[i].Offset, pending[i-1].Offset)
			}
		}
		for at := range added {
			if !written[closed(at).ID] {
				t.Fatalf("event %d of %d: got nothing, want it written or waiting", at, added)
			}
		}
	}
}

// TestAcknowledgedRowsAreDeleted: a store holds nothing of events for long.
func TestAcknowledgedRowsAreDeleted(t *testing.T) {
	t.Parallel()
	q, s := begun(9, 1, 2, 3), table{}
	s.commit(t, q)
	if len(s) != 4 {
		t.Fatalf("got %d rows, want 3 events and one that says that they are all", len(s))
	}
	ack(q, 2)
	if !q.Dirty() {
		t.Error("got nothing to delete, want 2 rows")
	}
	s.commit(t, q)
	if len(s) != 2 || q.Dirty() {
		t.Errorf("got %d rows, want 2", len(s))
	}
	if set, removed := q.TakeDirty(); len(set)+len(removed) != 0 {
		t.Errorf("got %d changes where nothing has changed, want none", len(set)+len(removed))
	}
}

// TestAGapGrowsInTheStore: the row is that of the gap as it is now.
func TestAGapGrowsInTheStore(t *testing.T) {
	t.Parallel()
	q, s := begun(0), table{}
	for i := range int64(MaxPending + 1) {
		q.Add(closed(i))
	}
	s.commit(t, q)
	q.Add(closed(MaxPending + 1))
	s.commit(t, q)
	again := s.load(t, 0)
	list, _ := again.Batch(MaxPending + 1)
	gap := list[len(list)-1]
	if gap.Type != event.Gap || gap.Lost != 2 || gap.To != MaxPending+2 {
		t.Errorf("got %+v, want a gap of 2", gap)
	}
	if again.Mark() != 0 {
		t.Errorf("got mark %d, want 0", again.Mark())
	}
}

// TestWhatOthersHaveWrittenIsDropped: the store of an owner that comes back is old.
func TestWhatOthersHaveWrittenIsDropped(t *testing.T) {
	t.Parallel()
	q, s := begun(9, 1, 2, 3), table{}
	s.commit(t, q)
	again := s.load(t, 3)
	if list, _ := again.Batch(9); len(list) != 1 || list[0].Offset != 3 {
		t.Errorf("got %+v, want the event of 3", list)
	}
	if s.commit(t, again); len(s) != 2 {
		t.Errorf("got %d rows, want one event and the one that says that it is all", len(s))
	}
}

// TestAStoreWithoutEventsIsNotComplete: one of an earlier version, or of a time without the topic.
func TestAStoreWithoutEventsIsNotComplete(t *testing.T) {
	t.Parallel()
	s := table{}
	if s.load(t, 0).Complete() {
		t.Error("got complete, want not: nothing says so")
	}
	q := begun(9, 1)
	s.commit(t, q)
	loaded := s.load(t, 0)
	if !loaded.Complete() {
		t.Error("got not complete, want it")
	}
	s.apply(t, loaded.Forget()) // the topic was switched off
	if len(s) != 0 || s.load(t, 0).Complete() {
		t.Errorf("got %d rows, want none", len(s))
	}
	if again := q.Forget(); len(again) != 2 {
		t.Errorf("got %d rows to delete, want 2", len(again))
	}
	if again := q.Forget(); len(again) != 0 {
		t.Errorf("got %d rows to delete once more, want none", len(again))
	}
	q.Reset()
	if q.Complete() || !q.Empty() || q.Mark() != 0 {
		t.Error("got something left after Reset, want nothing")
	}
}

// TestBadRows: the store is damaged, or of a later version.
func TestBadRows(t *testing.T) {
	t.Parallel()
	good := closed(1).Encode()
	for name, c := range map[string]struct{ key, value []byte }{
		"other version": {completeKey(), []byte{2}},
		"no version":    {completeKey(), nil},
		"short key":     {keyOf(1)[:5], good},
		"long key":      {append(keyOf(1), 0), good},
		"no event":      {keyOf(1), []byte("{}")},
		"cut short":     {keyOf(1), good[:20]},
	} {
		if err := NewQueue().Restore(c.key, c.value); !errors.Is(err, errRow) {
			t.Errorf("%s: got %v, want errRow", name, err)
		}
	}
}

// FuzzRestore: whatever a row holds, the queue refuses it or can give it back.
func FuzzRestore(f *testing.F) {
	f.Add(keyOf(7), closed(1).Encode())
	f.Add(completeKey(), []byte{completeVersion})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		q := NewQueue()
		if len(key) == 0 || fold.KindOf(key) != fold.EventRow || q.Restore(key, value) != nil {
			return
		}
		q.Begin(0)
		if list, last := q.Batch(1); len(key) == 9 && (len(list) != 1 || last != binary.BigEndian.Uint64(key[1:])) {
			t.Fatalf("got %d events and number %d, want the one that was restored", len(list), last)
		}
	})
}

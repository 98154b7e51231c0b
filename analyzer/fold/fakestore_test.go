package fold

import (
	"bytes"
	"maps"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store/rows"
)

// fakeStore holds rows the way a store does, and is as strict about what it is told. The zero value is empty.
type fakeStore struct {
	rows    map[string][]byte
	digest  uint64
	logTime int64
}

// commit applies what has changed in f, after it has checked that each key is changed once and that f knows what the
// store holds under it.
func (s *fakeStore) commit(t foldtest.T, f *Fold) {
	t.Helper()
	if s.rows == nil {
		s.rows = make(map[string][]byte)
	}
	bound := f.Dirty()
	changes := f.TakeDirty()
	if len(changes) > bound {
		t.Fatalf("got %d changes, want at most the %d announced", len(changes), bound)
	}
	seen := make(map[string]bool, len(changes))
	deleting := false
	for _, c := range changes {
		key := string(c.Key)
		if seen[key] {
			t.Fatalf("key %q is changed twice in one transaction", key)
		}
		seen[key] = true
		if deleting && c.Value != nil {
			t.Fatalf("key %q is put after a deletion, want deletions last", key)
		}
		deleting = c.Value == nil
		var held uint64
		if old, ok := s.rows[key]; ok {
			held = rows.Sum(c.Key, old)
		}
		if c.Old != held {
			t.Fatalf("key %q: got old sum %#x, the store holds %#x", key, c.Old, held)
		}
		s.digest -= held
		if c.Value == nil {
			if held == 0 {
				t.Fatalf("key %q is deleted, but the store does not hold it", key)
			}
			delete(s.rows, key)
			continue
		}
		s.rows[key] = bytes.Clone(c.Value)
		s.digest += rows.Sum(c.Key, c.Value)
	}
	s.logTime = f.LogTime()
	if again := f.TakeDirty(); len(again) > 0 {
		t.Fatalf("got %d changes when asked again, want none", len(again))
	}
}

// restore returns a fold that holds what the store does.
func (s *fakeStore) restore(t foldtest.T, set *rules.Set, o Options) *Fold {
	t.Helper()
	f := New(set, o)
	for key, value := range s.rows {
		if err := f.Restore([]byte(key), value); err != nil {
			t.Fatalf("restore: %v", err)
		}
	}
	f.Resume(s.logTime)
	return f
}

// clone returns a copy: what a kill leaves behind.
func (s *fakeStore) clone() fakeStore {
	return fakeStore{rows: maps.Clone(s.rows), digest: s.digest, logTime: s.logTime}
}

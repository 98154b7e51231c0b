package analyzer

import (
	"fmt"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
)

// Inspect reads the store of one partition, which no owner may have open, and returns a fold that holds what it holds.
// Rows of rules that are not in set, or that count otherwise there, are left out. The store is not changed.
func Inspect(dir string, set *rules.Set, o FoldOptions) (*Fold, store.Checkpoint, error) {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, store.Checkpoint{}, fmt.Errorf("open store: %w", err)
	}
	at := s.Checkpoint()
	f := NewFold(set, o)
	if err := s.Load(f.Restore); err != nil {
		_ = s.Close() // the first error says more
		return nil, at, fmt.Errorf("load store: %w", err)
	}
	f.Resume(at.LogTime)
	return f, at, s.Close()
}

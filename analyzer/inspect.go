package analyzer

import (
	"fmt"
	"math"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
)

// Inspect reads the store of one partition, and returns a fold with its rows. No owner may have the store open. Rows of rules that are not
// in set, or that count differently there, are left out. The store is not changed.
func Inspect(dir string, set *rules.Set, o fold.Options) (*fold.Fold, store.Checkpoint, error) {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, store.Checkpoint{}, fmt.Errorf("open store: %w", err)
	}
	at := s.Checkpoint()
	o.MaxRows = math.MaxInt
	f := fold.New(set, o)
	if err := s.Load(f.Restore); err != nil {
		_ = s.Close() // the first error says more
		return nil, at, fmt.Errorf("load store: %w", err)
	}
	f.Resume(at.LogTime)
	return f, at, s.Close()
}

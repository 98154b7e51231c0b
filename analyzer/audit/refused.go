package audit

import (
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/rows"
)

// obey puts the store's list of refusals on the recount's, which judges no times. The rows are the store's own word; that
// they are those that were committed is checked later, with all others.
func (a *audit) obey(s *store.Store, report *Report) error {
	err := s.Load(func(key, value []byte) error {
		if fold.KindOf(key) != fold.RefusalRow {
			return nil
		}
		return a.fold.Refusals().Restore(key, value, rows.Sum(key, value))
	})
	if err != nil && !errors.Is(err, store.ErrDigest) {
		return fmt.Errorf("read the list of refusals: %w", err)
	}
	_, report.Doubt, _ = a.fold.Refusals().Judged()
	return nil
}

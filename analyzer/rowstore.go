package analyzer

import (
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/store"
)

// rowStore is what an owner needs of its store. *store.Store implements it, and so does noStore.
type rowStore interface {
	checkpointer
	Checkpoint() store.Checkpoint
	Load(row func(key, value []byte) error) error
	Close() error
}

// openStore is store.Open for an owner.
func openStore(dir string, o store.Options) (rowStore, error) {
	s, err := store.Open(dir, o)
	if err != nil {
		return nil, err // a nil *store.Store would make a rowStore that is not nil
	}
	return s, nil
}

// noStore replaces the store while the disk is too full to open it. So an owner can still decide for the partition, in memory, from
// snapshot and log. Commits fail, as they do when the disk fills up later. When there is room again, they fail with errRoom. The Analyzer
// then starts another owner, which opens the store and finds its old rows there.
type noStore struct{ open func() (rowStore, error) }

func (noStore) Checkpoint() store.Checkpoint             { return store.Checkpoint{} }
func (noStore) Load(func(key, value []byte) error) error { return nil }
func (noStore) MaxChanges() int                          { return 1 << 15 }
func (noStore) MaxBytes() int                            { return 2 << 20 }
func (noStore) Close() error                             { return nil }
func (n noStore) Commit(_ store.Checkpoint, _ []store.Change) error {
	s, err := n.open()
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	return errors.Join(errRoom, s.Close())
}

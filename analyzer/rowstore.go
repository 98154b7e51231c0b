package analyzer

import (
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/store"
)

// rowStore is what an owner needs of its store; *store.Store is one, and noStore where there is no room for one.
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
		return nil, err // and not a rowStore that is a nil *store.Store
	}
	return s, nil
}

// noStore stands in for the store while the disk is too full to open it, so that an owner decides for the partition: from
// snapshot and log, in memory. Commits fail, as they do when a disk fills up later. Once there is room they fail with
// errRoom: the Analyzer then starts another owner, which opens the store and finds in it what it held.
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

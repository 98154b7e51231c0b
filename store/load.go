package store

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Load calls row for every row, in key order, and then verifies the set digest: on ErrDigest what it gave is worthless.
// Key and value are valid only until row returns. An error of row ends it and is returned as it is.
func (s *Store) Load(row func(key, value []byte) error) error {
	var digest uint64
	var rows int64
	err := s.each(func(key, value []byte) error {
		digest += Sum(key, value)
		rows++
		return row(key, value)
	})
	if err != nil {
		return err
	}
	if rows != s.last.Rows || digest != s.last.Digest {
		return fmt.Errorf("%w: got %d rows and %#x, want %d and %#x", ErrDigest, rows, digest, s.last.Rows, s.last.Digest)
	}
	return nil
}

// Check verifies that the store holds the rows and the checkpoint of the last commit, and nothing else.
func (s *Store) Check() error {
	c, err := s.storedCheckpoint()
	if err != nil {
		return err
	}
	if c != s.last {
		return fmt.Errorf("%w: got checkpoint %+v, want %+v", ErrCorrupt, c, s.last)
	}
	return s.Load(func(_, _ []byte) error { return nil })
}

// each calls row for every row.
func (s *Store) each(row func(key, value []byte) error) error {
	return s.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.PrefetchValues = false // they lie beside the keys
		it := txn.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			key := item.Key()
			if string(key) == checkpointKey {
				continue
			}
			if key[0] != rowPrefix {
				return fmt.Errorf("%w: foreign key %q", ErrCorrupt, key)
			}
			if err := item.Value(func(value []byte) error { return row(key[1:], value) }); err != nil {
				return err
			}
		}
		return nil
	})
}

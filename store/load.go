package store

import (
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// Load calls row for every row, in no particular order, and then verifies the set digest: on ErrDigest what it gave is worthless.
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
	pages, _, err := s.readPages()
	if err != nil {
		return err
	}
	for i := range pages {
		if !slices.Equal(pages[i].pages, s.buckets[i].pages) {
			return fmt.Errorf("%w: bucket %d: got pages %+v, want %+v", ErrCorrupt, i, pages[i].pages, s.buckets[i].pages)
		}
	}
	return s.Load(func(_, _ []byte) error { return nil })
}

// each calls row for every row.
func (s *Store) each(row func(key, value []byte) error) error {
	return s.db.View(func(txn *badger.Txn) error {
		for i := range s.buckets {
			if err := s.reader.newest(txn, i, &s.buckets[i], row); err != nil {
				return err
			}
		}
		return nil
	})
}

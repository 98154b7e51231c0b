package store

import (
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/509da70d/floodgate/store/rows"
)

// Load calls row for every row, in no particular order, and then verifies the digest. On ErrDigest the rows that it passed to
// row are worthless. Key and value are valid only until row returns. If row returns an error, Load returns it unchanged.
func (s *Store) Load(row func(key, value []byte) error) error {
	var digest uint64
	var n int64
	err := s.each(func(key, value []byte) error {
		digest += rows.Sum(key, value)
		n++
		return row(key, value)
	})
	if err != nil {
		return err
	}
	if n != s.last.Rows || digest != s.last.Digest {
		return fmt.Errorf("%w: got %d rows and %#x, want %d and %#x", ErrDigest, n, digest, s.last.Rows, s.last.Digest)
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
	stored, err := s.readContents()
	if err != nil {
		return err
	}
	for i := range stored.buckets {
		if !slices.Equal(stored.buckets[i].pages, s.buckets[i].pages) {
			return fmt.Errorf("%w: bucket %d: got pages %+v, want %+v", ErrCorrupt, i, stored.buckets[i].pages, s.buckets[i].pages)
		}
	}
	if s.bucketHash.stored && (stored.bucketHash == nil || *stored.bucketHash != s.bucketHash) {
		return fmt.Errorf("%w: the stored key of the bucket hash differs from the one in use", ErrCorrupt)
	}
	return s.Load(func(_, _ []byte) error { return nil })
}

// each calls row for every row.
func (s *Store) each(row func(key, value []byte) error) error {
	return s.db.View(func(txn *badger.Txn) error {
		for i := range s.buckets {
			err := s.reader.newest(txn, i, &s.buckets[i], func(key, value []byte) error {
				if home := s.bucketHash.bucketOf(key); home != i {
					return fmt.Errorf("%w: got a row in bucket %d, want it in bucket %d", ErrCorrupt, i, home)
				}
				return row(key, value)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

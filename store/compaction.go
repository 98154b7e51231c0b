package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// compactionBudget is how many bytes of pages are compacted after a commit, at most, for each byte of the commit. It is more
// than is needed in the long run, so that no bucket falls behind, and little enough that the work is spread over commits.
const compactionBudget = 4

// compact compacts buckets that are due, one after the other, until it has read budget bytes. Rows, digest and checkpoint
// stay the same: it is safe to stop anywhere, and to lose all writes after some point. A bucket for which the disk has no
// room stays due. That is no error, because the commit before it is on disk.
func (s *Store) compact(budget int) error {
	return s.inSplitTxn(func(t *splitTxn) error {
		for range buckets {
			if budget <= 0 {
				break
			}
			index := s.nextBucket
			s.nextBucket = (s.nextBucket + 1) % buckets
			b := &s.buckets[index]
			size := b.base + b.delta
			if !b.isDue() || s.room(s.minFree+int64(size)) != nil {
				continue
			}
			budget -= size
			compacted, err := s.compactBucket(t, index, b)
			if err != nil {
				return fmt.Errorf("compact bucket %d: %w", index, err)
			}
			*b = compacted
		}
		return nil
	})
}

// compactBucket writes the rows of a bucket to new pages, and then deletes the old pages, the oldest first. So a row that a newer page
// has deleted never reappears. It returns the bucket of the new pages.
func (s *Store) compactBucket(t *splitTxn, index int, b *bucket) (bucket, error) {
	contents, err := s.compactedPages(index, b)
	if err != nil {
		return bucket{}, err
	}
	var compacted bucket
	for _, content := range contents {
		p := page{number: s.number, size: len(content), compacted: true}
		s.number++
		compacted.add(p)
		e := badger.NewEntry(pageKey(index, p.number), content).WithMeta(compactedPage)
		if err := t.do(func(txn *badger.Txn) error { return txn.SetEntry(e) }); err != nil {
			return bucket{}, err
		}
	}
	for _, p := range b.pages {
		key := pageKey(index, p.number)
		if err := t.do(func(txn *badger.Txn) error { return txn.Delete(key) }); err != nil {
			return bucket{}, err
		}
	}
	return compacted, nil
}

// compactedPages returns the contents of the pages that take the place of a bucket's pages: each row once, in its newest
// version.
func (s *Store) compactedPages(index int, b *bucket) (contents [][]byte, err error) {
	var content []byte
	err = s.db.View(func(txn *badger.Txn) error {
		return s.reader.newest(txn, index, b, func(key, value []byte) error {
			if content == nil {
				content = make([]byte, 0, min(pageSize, b.base+b.delta))
			}
			content = appendRow(content, key, value)
			if len(content) >= pageSize {
				contents, content = append(contents, content), nil
			}
			return nil
		})
	})
	if len(content) > 0 {
		contents = append(contents, content)
	}
	return contents, err
}

// splitTxn writes to Badger in as few transactions as the writes fit into. inSplitTxn makes one and ends it.
type splitTxn struct {
	db  *badger.DB
	txn *badger.Txn // open, or nil before the first write
}

// inSplitTxn calls write with a splitTxn, and commits what it has written. If write returns an error, the writes of the last
// transaction are discarded; those of earlier transactions stay.
func (s *Store) inSplitTxn(write func(*splitTxn) error) error {
	t := splitTxn{db: s.db}
	defer t.discard()
	if err := write(&t); err != nil {
		return err
	}
	return t.commit()
}

// do does one write in the transaction, or in the next one if the transaction has no room for it.
func (t *splitTxn) do(write func(*badger.Txn) error) error {
	if t.txn == nil {
		t.txn = t.db.NewTransaction(true)
	}
	err := write(t.txn)
	if !errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err := t.commit(); err != nil {
		return err
	}
	t.txn = t.db.NewTransaction(true)
	return write(t.txn)
}

// commit commits the open transaction, if there is one.
func (t *splitTxn) commit() error {
	if t.txn == nil {
		return nil
	}
	err := t.txn.Commit()
	t.txn = nil
	return err
}

// discard discards the open transaction, if there is one.
func (t *splitTxn) discard() {
	if t.txn != nil {
		t.txn.Discard()
	}
}

package store

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// adopt takes over what Badger contains. If the store was made before the hash of buckets had a key, adopt moves its rows to
// the buckets of such a hash. It writes the new pages, then the key, then it deletes the old pages. If the process ends
// before that is done, the next Open does the rest.
func (s *Store) adopt(c *contents) error {
	old, pages := countPages(&c.old), countPages(&c.pages)
	s.buckets, s.number = c.pages, c.next
	switch {
	case c.bucketHash != nil:
		s.bucketHash = *c.bucketHash
	case pages > 0 && old == 0:
		return fmt.Errorf("%w: got %d pages and no key of the bucket hash", ErrCorrupt, pages)
	default:
		s.bucketHash = newBucketHash()
	}
	if old == 0 {
		return nil
	}
	if c.bucketHash == nil {
		if err := s.rehash(c); err != nil {
			return fmt.Errorf("move rows to other buckets: %w", err)
		}
	}
	if err := s.inSplitTxn(func(t *splitTxn) error { return t.deletePages(&c.old) }); err != nil {
		return fmt.Errorf("delete pages of old buckets: %w", err)
	}
	return nil
}

// countPages returns how many pages buckets have.
func countPages(all *[buckets]bucket) (n int) {
	for i := range all {
		n += len(all[i].pages)
	}
	return n
}

// rehash writes the rows of the old buckets to the buckets of the store, and then the key. It first deletes the pages that an
// attempt left which did not finish.
func (s *Store) rehash(c *contents) error {
	size := int64(0)
	for i := range c.old {
		size += int64(c.old[i].base + c.old[i].delta)
	}
	if err := s.room(s.minFree + size); err != nil {
		return err
	}
	err := s.inSplitTxn(func(t *splitTxn) error {
		if err := t.deletePages(&c.pages); err != nil {
			return err
		}
		s.buckets = [buckets]bucket{}
		if err := s.moveRows(t, &c.old); err != nil {
			return err
		}
		key := s.bucketHash.append(nil)
		return t.do(func(txn *badger.Txn) error { return txn.Set([]byte(bucketHashKey), key) })
	})
	if err != nil {
		return err
	}
	s.bucketHash.stored = true
	return nil
}

// moveRows writes the rows of old buckets to pages of the buckets to which they belong now.
func (s *Store) moveRows(t *splitTxn, from *[buckets]bucket) error {
	var pages [buckets][]byte
	err := s.db.View(func(txn *badger.Txn) error {
		for i := range from {
			err := s.reader.newest(txn, i, &from[i], func(key, value []byte) error {
				to := s.bucketHash.bucketOf(key)
				if pages[to] = appendRow(pages[to], key, value); len(pages[to]) < pageSize {
					return nil
				}
				full := pages[to]
				pages[to] = nil
				return s.putPage(t, to, full)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	for to, rest := range pages {
		if err == nil && len(rest) > 0 {
			err = s.putPage(t, to, rest)
		}
	}
	return err
}

// putPage adds a page to a bucket. No other page of the bucket has rows of this one.
func (s *Store) putPage(t *splitTxn, bucket int, content []byte) error {
	p := page{number: s.number, size: len(content), compacted: true}
	s.number++
	s.buckets[bucket].add(p)
	e := badger.NewEntry(p.key(bucket), content).WithMeta(compactedPage)
	return t.do(func(txn *badger.Txn) error { return txn.SetEntry(e) })
}

// deletePages deletes the pages of buckets.
func (t *splitTxn) deletePages(all *[buckets]bucket) error {
	for i := range all {
		for _, p := range all[i].pages {
			key := p.key(i)
			if err := t.do(func(txn *badger.Txn) error { return txn.Delete(key) }); err != nil {
				return err
			}
		}
	}
	return nil
}

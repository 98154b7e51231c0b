package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// mergeBudget is how many bytes of pages are merged after a commit, at most, for each byte that it had: more than is
// needed in the long run, so that no bucket stays behind, and little enough that merges are spread over the commits.
const mergeBudget = 4

// merge merges buckets that are due, one after the other, until it has read so many bytes. Rows, digest and checkpoint
// stay what they are: it is safe to stop anywhere, and to lose any part from some point on. What the disk has no room for
// stays due; that is no error, for what was committed is.
func (s *Store) merge(budget int) error {
	m := merger{s: s}
	defer m.discard()
	for range buckets {
		if budget <= 0 {
			break
		}
		index := s.turn
		s.turn = (s.turn + 1) % buckets
		b := &s.buckets[index]
		size := b.base + b.delta
		if !b.due() || s.room(s.minFree+int64(size)) != nil {
			continue
		}
		budget -= size
		merged, err := m.merge(index, b)
		if err != nil {
			return fmt.Errorf("merge bucket %d: %w", index, err)
		}
		*b = merged
	}
	return m.commit()
}

// merger writes merged pages and deletes those they were made of, in as few transactions as these fit into.
type merger struct {
	s   *Store
	txn *badger.Txn
}

// merge writes what is in a bucket anew, and deletes its pages from the oldest on: at no point does one reappear that a
// newer one had deleted.
func (m *merger) merge(index int, b *bucket) (bucket, error) {
	contents, err := m.s.mergedPages(index, b)
	if err != nil {
		return bucket{}, err
	}
	var merged bucket
	for _, content := range contents {
		p := page{number: m.s.number, size: len(content), merged: true}
		m.s.number++
		merged.add(p)
		e := badger.NewEntry(pageKey(index, p.number), content).WithMeta(mergedPage)
		if err := m.do(func(txn *badger.Txn) error { return txn.SetEntry(e) }); err != nil {
			return bucket{}, err
		}
	}
	for _, p := range b.pages {
		key := pageKey(index, p.number)
		if err := m.do(func(txn *badger.Txn) error { return txn.Delete(key) }); err != nil {
			return bucket{}, err
		}
	}
	return merged, nil
}

// mergedPages returns the rows of a bucket on pages of their own.
func (s *Store) mergedPages(index int, b *bucket) (contents [][]byte, err error) {
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

// do does one thing in the transaction, or in the next one if there is no room in it.
func (m *merger) do(what func(*badger.Txn) error) error {
	if m.txn == nil {
		m.txn = m.s.db.NewTransaction(true)
	}
	err := what(m.txn)
	if !errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err := m.commit(); err != nil {
		return err
	}
	m.txn = m.s.db.NewTransaction(true)
	return what(m.txn)
}

func (m *merger) commit() error {
	if m.txn == nil {
		return nil
	}
	err := m.txn.Commit()
	m.txn = nil
	return err
}

func (m *merger) discard() {
	if m.txn != nil {
		m.txn.Discard()
	}
}

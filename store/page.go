package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// A page is rows of one bucket that changed in one commit, or that were merged out of older pages, each row once. A row
// is the length of its key, the key, one more than the length of its value, and the value; a row that was deleted has 0
// for the latter length, and no value. Lengths are unsigned varints.

// rowOverhead is the most that the lengths of a row take.
const rowOverhead = 2 + 3

// appendRow appends a row to a page; a nil value is a deletion.
func appendRow(page, key, value []byte) []byte {
	page = binary.AppendUvarint(page, uint64(len(key)))
	page = append(page, key...)
	if value == nil {
		return append(page, 0)
	}
	page = binary.AppendUvarint(page, uint64(len(value))+1)
	return append(page, value...)
}

// cutRow splits the first row off a page. Its value is nil if it was deleted.
func cutRow(page []byte) (key, value, rest []byte, err error) {
	key, rest, err = cutBytes(page, MaxKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("key: %w", err)
	}
	if len(rest) > 0 && rest[0] == 0 {
		return key, nil, rest[1:], nil
	}
	size, n := binary.Uvarint(rest)
	if n <= 0 || size-1 > MaxValue || size-1 > uint64(len(rest)-n) {
		return nil, nil, nil, errors.New("value: cut short")
	}
	return key, rest[n : n+int(size)-1 : n+int(size)-1], rest[n+int(size)-1:], nil
}

// cutBytes splits off a length and as many bytes.
func cutBytes(b []byte, most uint64) (head, rest []byte, err error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > most || size > uint64(len(b)-n) {
		return nil, nil, errors.New("cut short")
	}
	return b[n : n+int(size) : n+int(size)], b[n+int(size):], nil
}

// Keys in Badger: the checkpoint's, and of each page the prefix, its bucket and its number.
const (
	checkpointKey = "c"
	pagePrefix    = 'p'
	pageKeySize   = 1 + 1 + 8
)

// pageSize is how long a page gets, but for a last row that goes beyond it. Two fit a block of Badger's, with room for such
// a row if it is short. Far longer ones Badger refuses (1 MiB), and before that takes twenty times their size to write a
// table of them.
const pageSize = blockSize/2 - 1<<10

// pageOverhead is more than what Badger adds to the size of a page in a transaction, and its key.
const pageOverhead = 32

// mergedPage marks, in Badger's user meta, a page that was merged out of others.
const mergedPage = 1

// page is what is remembered of one that is stored.
type page struct {
	number uint64 // of two pages of a bucket, the one with the higher number is newer
	size   int
	merged bool
}

func pageKey(bucket int, number uint64) []byte {
	key := make([]byte, 0, pageKeySize)
	key = append(key, pagePrefix, byte(bucket))
	return binary.BigEndian.AppendUint64(key, number)
}

// readPages returns the pages that Badger holds, by bucket, and the number after the highest of any.
func (s *Store) readPages() (all [buckets]bucket, next uint64, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.PrefetchValues = false
		it := txn.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			key := item.Key()
			if string(key) == checkpointKey {
				continue
			}
			if len(key) != pageKeySize || key[0] != pagePrefix {
				return fmt.Errorf("%w: foreign key %q", ErrCorrupt, key)
			}
			p := page{number: binary.BigEndian.Uint64(key[2:]), size: int(item.ValueSize()), merged: item.UserMeta() == mergedPage}
			all[key[1]].add(p) // in order: keys sort by bucket and number
			next = max(next, p.number+1)
		}
		return nil
	})
	return all, next, err
}

// readPage calls use with the content of a page, which is good until the transaction ends.
func readPage(txn *badger.Txn, bucket int, number uint64, use func(content []byte) error) error {
	item, err := txn.Get(pageKey(bucket, number))
	if err != nil {
		return damage(fmt.Sprintf("page %d of bucket %d", number, bucket), err)
	}
	return item.Value(use)
}

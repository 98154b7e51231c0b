package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// A page is rows of one bucket: those that changed in one commit, or those of older pages after a compaction. Each row is in
// it once. A row is the length of its key, the key, the length of its value plus 1, and the value. A deleted row has 0 in the
// place of the latter length, and no value. Lengths are unsigned varints.

// rowOverhead is how many bytes the lengths of a row take at most.
const rowOverhead = 2 + 3

// appendRow appends a row to a page. A nil value deletes the row.
func appendRow(page, key, value []byte) []byte {
	page = binary.AppendUvarint(page, uint64(len(key)))
	page = append(page, key...)
	if value == nil {
		return append(page, 0)
	}
	page = binary.AppendUvarint(page, uint64(len(value))+1)
	return append(page, value...)
}

// cutRow splits the first row off a page. The value is nil if the row is deleted.
func cutRow(page []byte) (key, value, rest []byte, err error) {
	key, rest, err = cutBytes(page, maxKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("key: %w", err)
	}
	if len(rest) > 0 && rest[0] == 0 {
		return key, nil, rest[1:], nil
	}
	size, n := binary.Uvarint(rest)
	if n <= 0 || size-1 > maxValue || size-1 > uint64(len(rest)-n) {
		return nil, nil, nil, errors.New("value: cut short")
	}
	return key, rest[n : n+int(size)-1 : n+int(size)-1], rest[n+int(size)-1:], nil
}

// cutBytes splits a length, of at most maxSize, and as many bytes off b.
func cutBytes(b []byte, maxSize uint64) (head, rest []byte, err error) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > maxSize || size > uint64(len(b)-n) {
		return nil, nil, errors.New("cut short")
	}
	return b[n : n+int(size) : n+int(size)], b[n+int(size):], nil
}

// Keys in Badger: that of the checkpoint, that of the key of the bucket hash, and for each page a prefix, its bucket and its
// number.
const (
	checkpointKey = "c"
	bucketHashKey = "k"
	pagePrefix    = 'p'
	pageKeySize   = 1 + 1 + 8
)

// pageSize is the size at which a page is full; its last row may go beyond it. Two full pages fit into a block of Badger's, if
// their last rows are short. Badger refuses pages that are far longer (1 MiB). And to write a table of long pages it takes
// twenty times their size in memory.
const pageSize = blockSize/2 - 1<<10

// pageOverhead is an upper bound of the bytes that a page takes in a transaction beside its content: its key, and what Badger adds.
const pageOverhead = 32

// compactedPage is Badger's user meta of a page that a compaction wrote.
const compactedPage = 1

// page describes a page that is stored.
type page struct {
	number    uint64 // the higher of two numbers is that of the newer page
	size      int
	compacted bool
}

// pageKey returns a page's key in Badger.
func pageKey(bucket int, number uint64) []byte {
	key := make([]byte, 0, pageKeySize)
	key = append(key, pagePrefix, byte(bucket))
	return binary.BigEndian.AppendUint64(key, number)
}

// contents is what Badger contains.
type contents struct {
	bucketHash *bucketHash // nil if the store has no key for it
	buckets    [buckets]bucket
	next       uint64 // the highest number of a page, plus 1
}

// readContents returns what Badger contains.
func (s *Store) readContents() (c contents, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.PrefetchValues = false
		it := txn.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := c.add(it.Item()); err != nil {
				return err
			}
		}
		return nil
	})
	return c, err
}

// add adds one key of Badger. Keys come in order, so that those of pages are sorted by bucket and number.
func (c *contents) add(item *badger.Item) error {
	key := item.Key()
	switch {
	case string(key) == checkpointKey:
		return nil
	case string(key) == bucketHashKey:
		c.bucketHash = new(bucketHash)
		return item.Value(c.bucketHash.decode)
	case len(key) != pageKeySize || key[0] != pagePrefix:
		return fmt.Errorf("%w: foreign key %q", ErrCorrupt, key)
	}
	p := page{number: binary.BigEndian.Uint64(key[2:]), size: int(item.ValueSize()), compacted: item.UserMeta() == compactedPage}
	c.buckets[key[1]].add(p)
	c.next = max(c.next, p.number+1)
	return nil
}

// readPage calls use with the content of a page, which is valid until the transaction ends.
func readPage(txn *badger.Txn, bucket int, p page, use func(content []byte) error) error {
	item, err := txn.Get(pageKey(bucket, p.number))
	if err != nil {
		return damage(fmt.Sprintf("page %d of bucket %d", p.number, bucket), err)
	}
	return item.Value(use)
}

package store

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/dgraph-io/badger/v4"
)

// buckets is into how many the rows are spread, by the highest bits of the hashes of their keys. More would make pages
// smaller, each of which costs; fewer would make merges longer.
const buckets = 1 << bucketBits

const bucketBits = 8

// bucketOf returns the bucket of a row by the hash of its key.
func bucketOf(hash uint64) int { return int(hash >> (64 - bucketBits)) }

// bucket is the pages that hold one part of the rows. Of a row that is in several, the newest counts.
type bucket struct {
	pages []page // oldest first
	base  int    // bytes of those that were merged
	delta int    // bytes of those that came since
}

func (b *bucket) add(p page) {
	b.pages = append(b.pages, p)
	if p.merged {
		b.base += p.size
	} else {
		b.delta += p.size
	}
}

// due reports whether to merge the bucket: when it holds three times what was left of it the last time. So a byte that
// is committed is written at most once and a half more, and a store is not much larger than three times the rows it had
// when it was merged last.
func (b *bucket) due() bool { return b.delta+pageCost*len(b.pages) > 2*b.base+4<<10 }

// pageCost is how many bytes more a page counts for than it holds, so that many small commits do not leave as many small
// pages: each takes memory, and longer to read and to delete than rows of so many bytes.
const pageCost = 256

// reader reads buckets. It is kept for its memory.
type reader struct {
	seen map[string]struct{} // keys, in the memory of the pages; empty between buckets
}

// maxSeen is how many keys a map may have had that is kept: four times those that a bucket of a million rows has. What a
// larger one takes would be cleared for every bucket, and never be given back.
const maxSeen = 16 << 10

// forget lets go of the pages.
func (r *reader) forget() {
	if len(r.seen) > maxSeen {
		r.seen = make(map[string]struct{})
	}
	clear(r.seen)
}

// newest calls row for each row of a bucket that is not deleted. Keys and values are good until the transaction ends.
func (r *reader) newest(txn *badger.Txn, index int, b *bucket, row func(key, value []byte) error) error {
	defer r.forget()
	for i, p := range slices.Backward(b.pages) {
		err := readPage(txn, index, p.number, func(content []byte) error {
			return r.unseen(content, i == 0, row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unseen calls row for each row of a page that is not deleted, and was not in a newer one. What is in the oldest need not
// be remembered: a page has no row twice.
func (r *reader) unseen(content []byte, oldest bool, row func(key, value []byte) error) error {
	for len(content) > 0 {
		key, value, rest, err := cutRow(content)
		if err != nil {
			return fmt.Errorf("%w: page: %w", ErrCorrupt, err)
		}
		content = rest
		name := unsafe.String(unsafe.SliceData(key), len(key))
		if _, ok := r.seen[name]; ok {
			continue
		}
		if !oldest {
			r.seen[name] = struct{}{}
		}
		if value == nil {
			continue
		}
		if err := row(key, value); err != nil {
			return err
		}
	}
	return nil
}

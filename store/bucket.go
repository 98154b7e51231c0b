package store

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"

	"github.com/509da70d/floodgate/schemas"
)

// buckets is the number of hash buckets. The highest bits of a hash of its key determine the bucket of a row: see bucketHash.
// With more buckets pages would be smaller, and each page has a cost. With fewer, a compaction would take longer.
const buckets = 1 << bucketBits

const bucketBits = 8

// bucket is the pages with the rows of one hash bucket. If a row is in several pages, the newest one counts.
type bucket struct {
	pages []page // oldest first
	base  int    // bytes of compacted pages
	delta int    // bytes of pages that were committed since
}

func (b *bucket) add(p page) {
	b.pages = append(b.pages, p)
	if p.compacted {
		b.base += p.size
	} else {
		b.delta += p.size
	}
}

// isDue reports whether to compact the bucket: once it holds three times the bytes that its last compaction left. So each
// committed byte is written at most one and a half times more. And a store is not much larger than three times the rows that
// it had at its last compaction.
func (b *bucket) isDue() bool { return b.delta+pageCost*len(b.pages) > 2*b.base+4<<10 }

// pageCost is added to the size of each page when isDue counts its bytes. It prevents that many small commits leave many
// small pages: each takes memory, and takes longer to read and to delete than rows of this many bytes.
const pageCost = 256

// reader reads buckets. A Store keeps one to use its memory again.
type reader struct {
	seen map[string]struct{} // keys, in the memory of the pages; empty between buckets
}

// maxSeen is how many keys the map may hold and still be kept: four times the keys of a bucket in a store of a million rows.
// A larger map would cost time for every bucket to clear it, and its memory would never be freed.
const maxSeen = 16 << 10

// reset drops the references to the pages.
func (r *reader) reset() {
	if len(r.seen) > maxSeen {
		r.seen = make(map[string]struct{})
	}
	clear(r.seen)
}

// newest calls row for the newest version of each row of a bucket, except deleted ones. Keys and values are valid until the
// transaction ends.
func (r *reader) newest(txn *badger.Txn, index int, b *bucket, row func(key, value []byte) error) error {
	defer r.reset()
	for i, p := range slices.Backward(b.pages) {
		err := readPage(txn, index, p, func(content []byte) error {
			return r.unseen(content, i == 0, row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unseen calls row for each row of a page, except deleted ones and those that were in a newer page. It does not add the keys
// of the oldest page to seen, because a page has no row twice.
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

// bucketHash chooses the bucket of a row, by SipHash under a key that is drawn when the store is made and stored in it. Keys
// of rows contain the ids of callers, and clients may choose them. With a public hash they could fill one bucket, and a
// compaction reads and writes a whole bucket. (XXH64 under a secret seed would not suffice: there are strings that collide
// under every seed.) Neither the rows nor their digest depend on the key.
type bucketHash struct {
	key    schemas.PartitionKey
	stored bool // the key is in the store; before that, the store has no page
}

// newBucketHash draws a key.
func newBucketHash() (s bucketHash) {
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

// bucketOf returns the bucket of a row by its key.
func (s *bucketHash) bucketOf(key []byte) int {
	return int(s.key.Hash("", unsafe.String(unsafe.SliceData(key), len(key))) >> (64 - bucketBits))
}

const (
	bucketHashFormat = 1
	bucketHashSize   = 1 + 16 + 8 // format, key, checksum
)

// append appends the key and a checksum.
func (s *bucketHash) append(b []byte) []byte {
	start := len(b)
	b = append(append(b, bucketHashFormat), s.key[:]...)
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[start:]))
}

// decode reads what append wrote.
func (s *bucketHash) decode(b []byte) error {
	if len(b) != bucketHashSize || b[0] != bucketHashFormat {
		return fmt.Errorf("%w: got %d bytes for the key of the bucket hash, want %d of format %d", ErrCorrupt, len(b), bucketHashSize, bucketHashFormat)
	}
	if body := b[:bucketHashSize-8]; xxhash.Sum64(body) != binary.LittleEndian.Uint64(b[bucketHashSize-8:]) {
		return fmt.Errorf("%w: the checksum of the key of the bucket hash differs", ErrCorrupt)
	}
	*s = bucketHash{key: schemas.PartitionKey(b[1:17]), stored: true}
	return nil
}

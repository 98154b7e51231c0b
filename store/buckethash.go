package store

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/509da70d/floodgate/schemas"
)

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

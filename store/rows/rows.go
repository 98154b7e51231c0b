// Package rows contains what a fold, a store and snapshots have in common: a change of a row, the sum of a row, and the number
// of the format. It is a package of its own so that the fold, which does no I/O, links no database.
package rows

import "github.com/cespare/xxhash/v2"

// Change is one row's new value. The zero value deletes the row with the empty key.
type Change struct {
	Key   []byte
	Value []byte // nil deletes the row
	Old   uint64 // Sum of the row as last committed, 0 if there was no such row
}

// Sum returns the hash of a row: XXH64 of the value, seeded with XXH64 of the key, and 1 instead of 0. It is the same in
// every process and version, and it is never 0, which means that there is no such row. It detects accidents, not attacks.
func Sum(key, value []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(xxhash.Sum64(key))
	_, _ = d.Write(value) // never fails
	return max(d.Sum64(), 1)
}

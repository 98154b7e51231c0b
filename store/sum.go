package store

import "github.com/cespare/xxhash/v2"

// Sum returns the hash of a row: XXH64 of the value, seeded with XXH64 of the key, and 1 instead of 0. It is stable over
// processes and versions, and never 0, which stands for a row that is not there. It guards against accidents, not
// against people.
func Sum(key, value []byte) uint64 {
	return sumOf(xxhash.Sum64(key), value)
}

// sumOf is Sum, given the XXH64 of the key.
func sumOf(hash uint64, value []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(hash)
	_, _ = d.Write(value) // never fails
	return max(d.Sum64(), 1)
}

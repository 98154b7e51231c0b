package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"

	"github.com/509da70d/floodgate/store/rows"
)

// TestChosenKeysDoNotFillABucket: an attacker who has read the source, and other stores, chooses ids whose rows are in one
// bucket by every hash that can be computed from outside. In a store of its own they spread as others do.
func TestChosenKeysDoNotFillABucket(t *testing.T) {
	const n = 20 * buckets
	other := newBucketHash()
	for name, bucketOf := range map[string]func(key []byte) int{
		"no key":              func(key []byte) int { return int(xxhash.Sum64(key) >> (64 - bucketBits)) },
		"the zero key":        (&bucketHash{}).bucketOf,
		"another store's key": other.bucketOf,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.TempDir(), quiet())
			if err != nil {
				t.Fatal(err)
			}
			defer closeChecked(t, s)
			var changes []Change
			for i := 0; len(changes) < n; i++ {
				if key := fmt.Sprint("wper-key\x00key:", i); bucketOf([]byte(key)) == 7 {
					changes = append(changes, put(key, "1"))
				}
			}
			commit(t, s, 1, changes...)
			largest := 0
			for _, b := range s.buckets {
				largest = max(largest, b.base+b.delta)
			}
			if bound := 4 * 20 * Bytes(&changes[n-1]); largest > bound {
				t.Errorf("got a bucket of %d bytes, want at most %d: four times the mean", largest, bound)
			}
		})
	}
}

// TestASeedDoesNotStopCollisions is why buckets do not go by XXH64 under a secret seed: two lanes whose differences cancel
// out collide under every seed.
func TestASeedDoesNotStopCollisions(t *testing.T) {
	const prime1, prime2 = 0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f
	lane := func(mixed uint64) uint64 { // the input that round turns into mixed
		return bits.RotateLeft64(mixed*inverse(prime1), -31) * inverse(prime2)
	}
	key := func(first, second uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, lane(first)), lane(second))
	}
	a, b := key(1, 2), key(1^1<<36, 2^1<<63)
	if slices.Equal(a, b) {
		t.Fatal("got one key twice")
	}
	for seed := range uint64(1000) {
		var x, y xxhash.Digest
		x.ResetWithSeed(seed * prime1)
		y.ResetWithSeed(seed * prime1)
		_, _ = x.Write(a)
		_, _ = y.Write(b)
		if x.Sum64() != y.Sum64() {
			t.Fatalf("seed %d: got two hashes, want one", seed)
		}
	}
	differ := 0
	for range 64 {
		if s := newBucketHash(); s.bucketOf(a) != s.bucketOf(b) {
			differ++
		}
	}
	if differ < 48 { // one in 256 falls together
		t.Errorf("got two buckets under %d of 64 keys, want nearly always", differ)
	}
}

// inverse returns the number that times an odd one is 1.
func inverse(odd uint64) uint64 {
	x := odd
	for range 6 {
		x *= 2 - odd*x
	}
	return x
}

func TestTheKeyOfBucketsStays(t *testing.T) {
	dir := t.TempDir()
	var first bucketHash
	for n := range int64(3) {
		s, err := Open(dir, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if s.bucketHash.stored || s.bucketHash == (bucketHash{}) {
				t.Fatalf("got %+v, want a key that was drawn and not stored", s.bucketHash)
			}
			first = s.bucketHash
		}
		if s.bucketHash.key != first.key {
			t.Errorf("opened %d times: got another key", n)
		}
		commit(t, s, n+1, put(fmt.Sprint("row", n), "1"))
		closeChecked(t, s)
	}
	if s := newBucketHash(); s.key == first.key {
		t.Error("got one key twice")
	}
}

// A key that is lost or damaged is found when the store is opened: rows would go to other buckets than their older versions.
func TestADamagedKeyOfBucketsIsFound(t *testing.T) {
	whole := (&bucketHash{key: [16]byte{1, 2, 3}}).append(nil)
	for name, b := range map[string][]byte{
		"gone": nil, "empty": {}, "cut short": whole[:bucketHashSize-1], "longer": append(slices.Clone(whole), 0),
		"another format": append([]byte{9}, whole[1:]...), "a bit flipped": append([]byte{bucketHashFormat, 9}, whole[2:]...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			commit(t, s, 1, put("a", "1"))
			err := s.db.Update(func(txn *badger.Txn) error {
				if b == nil {
					return txn.Delete([]byte(bucketHashKey))
				}
				return txn.Set([]byte(bucketHashKey), b)
			})
			if err = errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, quiet()); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v, want %v", err, ErrCorrupt)
			}
		})
	}
}

// BenchmarkChosenInput commits rows whose keys are random, and rows that the attacker's search puts into one bucket where
// buckets go by a hash that is known. The worst commit is the one that compacts most.
func BenchmarkChosenInput(b *testing.B) {
	const n = 100_000
	for name, chosen := range map[string]bool{"random": false, "chosen": true} {
		b.Run(name, func(b *testing.B) {
			s, err := Open(b.TempDir(), quiet())
			if err != nil {
				b.Fatal(err)
			}
			changes := make([]Change, 0, n)
			for i := 0; len(changes) < n; i++ {
				if key := fmt.Appendf(nil, "wper-key\x00key:%d", i); !chosen || xxhash.Sum64(key)>>(64-bucketBits) == 7 {
					changes = append(changes, Change{Key: key, Value: make([]byte, 64)})
				}
			}
			next, at := int64(0), 0
			for b.Loop() {
				part := changes[at : at+10_000]
				if err := s.Commit(Checkpoint{Next: next}, part); err != nil {
					b.Fatal(err)
				}
				for i := range part {
					part[i].Old = rows.Sum(part[i].Key, part[i].Value)
					part[i].Value[0]++
				}
				next, at = next+1, (at+10_000)%n
			}
			largest := 0
			for i := range s.buckets {
				largest = max(largest, s.buckets[i].base+s.buckets[i].delta)
			}
			b.ReportMetric(float64(largest), "B/largest-bucket")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"

	"github.com/509da70d/floodgate/store/rows"
)

// crowd returns n keys that are all in bucket 7 of a store whose key is public: see publish.
func crowd(n int) (keys []string) {
	var public bucketHash
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key-", i); public.bucketOf([]byte(key)) == 7 {
			keys = append(keys, key)
		}
	}
	return keys
}

// publish makes the key of a new store one that tests know.
func publish(s *Store) {
	if !s.bucketHash.stored {
		s.bucketHash.key = [16]byte{}
	}
}

func TestOfARowTheNewestCounts(t *testing.T) {
	keys := crowd(3)
	a, b, c := keys[0], keys[1], keys[2]
	s := open(t, t.TempDir())
	for i, step := range []struct {
		changes []Change
		want    string
	}{
		{[]Change{put(a, "1"), put(b, "1")}, a + "=1 " + b + "=1"},
		{[]Change{replace(a, "1", "2")}, a + "=2 " + b + "=1"},
		{[]Change{replace(b, "1", ""), put(c, "1")}, a + "=2 " + c + "=1"},
		{[]Change{replace(a, "2", "")}, c + "=1"},
		{[]Change{put(a, "3"), put(b, "3"), replace(c, "1", "")}, a + "=3 " + b + "=3"},
	} {
		commit(t, s, int64(i+1), step.changes...)
		want := strings.Fields(step.want)
		slices.Sort(want)
		if got := rowsOf(t, s); got != strings.Join(want, " ") {
			t.Errorf("step %d: got %q, want %q", i, got, want)
		}
		if got := len(s.buckets[7].pages); got != i+1 {
			t.Errorf("step %d: got %d pages, want one for each commit: all is in one bucket, which is not due", i, got)
		}
	}
}

// Keys that were seen are in the memory of the pages that they were on: they hold it, and so would a map that once was
// large hold its own.
func TestAReaderKeepsNothing(t *testing.T) {
	s := open(t, t.TempDir())
	var first, second []Change
	for _, key := range crowd(100) {
		first, second = append(first, put(key, "1")), append(second, replace(key, "1", "2"))
	}
	commit(t, s, 1, first...)
	commit(t, s, 2, second...)
	read := func() {
		t.Helper()
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if n := len(s.reader.seen); n != 0 {
			t.Errorf("got %d keys kept", n)
		}
	}
	read()
	small := fmt.Sprintf("%p", s.reader.seen)
	for i := range maxSeen + 1 {
		s.reader.seen[fmt.Sprint(i)] = struct{}{}
	}
	s.reader.reset()
	if large := fmt.Sprintf("%p", s.reader.seen); large == small {
		t.Error("got the map of a bucket that was too large")
	}
	read()
	if err := s.compact(1 << 20); err != nil || len(s.reader.seen) != 0 {
		t.Errorf("got %v and %d keys after a compaction", err, len(s.reader.seen))
	}
}

func TestKeysSpreadOverBuckets(t *testing.T) {
	var n [buckets]int
	s := newBucketHash()
	for i := range 100 * buckets {
		n[s.bucketOf(fmt.Appendf(nil, "wper-ip\x00ip:10.0.%d.%d", i>>8, i&255))]++
	}
	for b, n := range n {
		if n < 50 || n > 150 {
			t.Errorf("bucket %d: got %d of 100 keys each", b, n)
		}
	}
}

func TestABucketIsDueWhenItHasTripled(t *testing.T) {
	const full = 4<<10 - 2*pageCost // what two pages may hold of a new bucket
	for _, test := range []struct {
		pages []page
		want  bool
	}{
		{nil, false},
		{[]page{{size: full}, {}}, false},
		{[]page{{size: full}, {size: 1}}, true},
		{slices.Repeat([]page{{size: 1}}, 15), false},
		{slices.Repeat([]page{{size: 1}}, 16), true},
		{[]page{{size: 1000, compacted: true}, {size: full + 2000}}, false},
		{[]page{{size: 1000, compacted: true}, {size: full + 2000 + 1}}, true},
		{[]page{{size: 600, compacted: true}, {size: 400, compacted: true}, {size: full + 2000 - pageCost}}, false},
		{slices.Repeat([]page{{size: pageSize, compacted: true}}, 1000), false},
	} {
		var b bucket
		for _, p := range test.pages {
			b.add(p)
		}
		if b.isDue() != test.want {
			t.Errorf("%+v: got due %v", test.pages, b.isDue())
		}
	}
}

// TestChosenKeysDoNotFillABucket: an attacker who has read the source, and other stores, chooses ids whose rows are in one
// bucket by every hash that can be computed from outside. In a store of its own they spread as others do.
func TestChosenKeysDoNotFillABucket(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

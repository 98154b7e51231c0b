package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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

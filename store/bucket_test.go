package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// crowd returns n keys that are all in bucket 7, as somebody may choose who knows the hash.
func crowd(n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key-", i); bucketOf(xxhash.Sum64String(key)) == 7 {
			keys = append(keys, key)
		}
	}
	return keys
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
		if got := rows(t, s); got != strings.Join(want, " ") {
			t.Errorf("step %d: got %q, want %q", i, got, want)
		}
		if got := len(s.buckets[7].pages); got != i+1 {
			t.Errorf("step %d: got %d pages, want one for each commit: all is in one bucket, which is not due", i, got)
		}
	}
}

func TestKeysSpreadOverBuckets(t *testing.T) {
	var n [buckets]int
	for i := range 100 * buckets {
		n[bucketOf(xxhash.Sum64String(fmt.Sprintf("wper-ip\x00ip:10.0.%d.%d", i>>8, i&255)))]++
	}
	for b, n := range n {
		if n < 50 || n > 150 {
			t.Errorf("bucket %d: got %d of 100 keys each", b, n)
		}
	}
}

func TestABucketIsDueWhenItHasTripled(t *testing.T) {
	for _, test := range []struct {
		pages []page
		want  bool
	}{
		{nil, false},
		{[]page{{size: 4 << 10}}, false},
		{[]page{{size: 4 << 10}, {size: 1}}, true},
		{[]page{{size: 1000, merged: true}, {size: 4<<10 + 2000}}, false},
		{[]page{{size: 1000, merged: true}, {size: 4<<10 + 2000}, {size: 1}}, true},
		{[]page{{size: 600, merged: true}, {size: 400, merged: true}, {size: 4<<10 + 2000}}, false},
	} {
		var b bucket
		for _, p := range test.pages {
			b.add(p)
		}
		if b.due() != test.want {
			t.Errorf("%+v: got due %v", test.pages, b.due())
		}
	}
}

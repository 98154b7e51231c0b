package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/store/rows"
)

// Whoever chooses the keys may put all of a commit into one bucket, and any lengths into it.
func TestMaxBytesOfOneBucketFitOneCommit(t *testing.T) {
	t.Parallel()
	keys := crowd(2000)
	for _, size := range []int{0, 1000, 9_000, maxValue / 2, maxValue} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			want := make(map[string][]byte)
			for next, value := range []string{"1", "2", ""} { // new, changed, gone
				var changes []Change
				left := s.MaxBytes()
				for _, key := range keys {
					c := Change{Key: []byte(key)}
					if old, ok := want[key]; ok {
						c.Old = rows.Sum(c.Key, old)
					}
					if value != "" {
						c.Value = slices.Repeat([]byte(value), size)
					}
					if left -= Bytes(&c); left < 0 {
						break
					}
					changes = append(changes, c)
				}
				commit(t, s, int64(next+1), changes...)
				apply(want, changes)
			}
			if err := sameRows(s, want); err != nil {
				t.Error(err)
			}
			for _, p := range s.buckets[7].pages {
				if bound := pageSize + len(keys[0]) + 10 + size; p.size >= bound {
					t.Errorf("got a page of %d bytes, want less than %d", p.size, bound)
				}
			}
			closeChecked(t, s)
			for _, f := range files(t, dir, "*.vlog") {
				if f.Size() > 1<<10 {
					t.Errorf("got %d bytes in the value log, which is never emptied", f.Size())
				}
			}
		})
	}
}

// files returns those of a store that match.
func files(t *testing.T, dir, pattern string) (all []os.FileInfo) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Badger has just deleted it
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info)
	}
	return all
}

// TestAFullDiskSaysHowMuchIsFree, in MiB, and how much a commit wants.
func TestAFullDiskSaysHowMuchIsFree(t *testing.T) {
	s := open(t, t.TempDir())
	s.minFree = 1 << 60
	err := s.Commit(Checkpoint{Next: 1}, nil)
	var free, want int64
	if _, scanErr := fmt.Sscanf(fmt.Sprint(err), ErrNoSpace.Error()+": got %d MiB free, want %d", &free, &want); scanErr != nil || want != 1<<40 {
		t.Errorf("got %v (%v), want 2^40 MiB wanted", err, scanErr)
	}
	if there, err := freeBytes(s.dir); err != nil || free < there>>20*3/4 || free > there>>20*5/4 {
		t.Errorf("got %d MiB free, want some %d (%v)", free, there>>20, err)
	}
}

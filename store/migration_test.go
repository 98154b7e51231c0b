package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"
)

// age makes a store what it would be had it been made before buckets had a key: several versions of its rows, and rows that
// were deleted, on pages of buckets by XXH64. It returns the rows that it holds.
func age(t *testing.T, s *Store, keep func(key []byte) bool) map[string][]byte {
	t.Helper()
	want, number := make(map[string][]byte), s.number
	err := s.Load(func(key, value []byte) error {
		want[string(key)] = append([]byte(nil), value...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, value []byte) {
		p := page{number: number, old: true}
		number++
		content := appendRow(nil, []byte(key), value)
		at := int(xxhash.Sum64String(key) >> (64 - bucketBits))
		if err := s.db.Update(func(txn *badger.Txn) error { return txn.Set(p.key(at), content) }); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range want {
		put(key, []byte("an older value"))
		put(key, value)
		put("gone-"+key, value)
		put("gone-"+key, nil)
	}
	err = s.db.Update(func(txn *badger.Txn) error {
		for i, b := range s.buckets {
			for _, p := range b.pages {
				if key := p.key(i); !keep(key) {
					if err := txn.Delete(key); err != nil {
						return err
					}
				}
			}
		}
		if keep([]byte(bucketHashKey)) {
			return nil
		}
		return txn.Delete([]byte(bucketHashKey))
	})
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// TestAnOlderStoreIsRekeyed: a store that was made before buckets had a key is opened with the same rows and checkpoint,
// and has no page of old then; also where an earlier attempt ended in the middle.
func TestAnOlderStoreIsRekeyed(t *testing.T) {
	for name, keep := range map[string]func(key []byte) bool{
		"never opened since":              func([]byte) bool { return false },
		"ended before the key":            func(key []byte) bool { return key[0] == pagePrefix && key[1]%2 == 0 },
		"ended with all but the key":      func(key []byte) bool { return key[0] == pagePrefix },
		"ended before old pages had gone": func([]byte) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			var changes []Change
			for i := range 300 {
				changes = append(changes, put(fmt.Sprint("row-", i), strings.Repeat(fmt.Sprint(i), i%7*500+1)))
			}
			commit(t, s, 1, changes...)
			want, before := age(t, s, keep), s.Checkpoint()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s = open(t, dir)
				if err := sameRows(s, want); err != nil {
					t.Error(err)
				}
				if err := s.Check(); err != nil || !s.bucketHash.stored || s.Checkpoint() != before {
					t.Errorf("got %v, a key that is stored: %v, and checkpoint %+v, want %+v", err, s.bucketHash.stored, s.Checkpoint(), before)
				}
				if c, err := s.readContents(); err != nil || countPages(&c.old) != 0 {
					t.Errorf("got %v and %d pages of old, want none", err, countPages(&c.old))
				}
				closeChecked(t, s)
			}
			s = open(t, dir)
			commit(t, s, 2, replace("row-1", "1"+strings.Repeat("1", 500), "new"), put("another", "1"))
			want["row-1"], want["another"] = []byte("new"), []byte("1")
			if err := sameRows(s, want); err != nil {
				t.Error(err)
			}
		})
	}
}

// An older store that has no room for its rows a second time waits for room, and is not touched.
func TestAnOlderStoreWaitsForRoom(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	commit(t, s, 1, put("a", "1"))
	want := age(t, s, func([]byte) bool { return false })
	c, err := s.readContents()
	if err != nil {
		t.Fatal(err)
	}
	s.minFree = 1 << 60
	if err := s.adopt(&c); !errors.Is(err, ErrNoSpace) || s.bucketHash.stored {
		t.Errorf("got %v, want %v, and no key stored", err, ErrNoSpace)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sameRows(open(t, dir), want); err != nil {
		t.Error(err)
	}
}

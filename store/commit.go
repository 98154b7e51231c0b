package store

import (
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"
)

// Bounds on a row, in bytes.
const (
	MaxKey   = 4 << 10
	MaxValue = 512 << 10 // Badger would move a longer one to its value log
)

// maxChanges is how many rows one commit takes. What Badger counts is pages.
const maxChanges = 1 << 15

// Change is one row's new value. A commit has at most one change for a key.
type Change struct {
	Key   []byte
	Value []byte // nil deletes the row
	Old   uint64 // Sum of the row as committed last, 0 if it was not there
}

// MaxChanges returns how many changes one commit takes, as long as they also keep to MaxBytes.
func (s *Store) MaxChanges() int { return maxChanges }

// MaxBytes returns how many bytes of changes one commit takes, counted by Bytes.
func (s *Store) MaxBytes() int {
	most := int(s.db.MaxBatchSize())
	pages := buckets + most/pageSize // each bucket has one that is not full
	return most - pages*pageOverhead - 1<<10
}

// Bytes returns what the change counts towards MaxBytes.
func (c *Change) Bytes() int { return len(c.Key) + len(c.Value) + rowOverhead }

// Commit writes the checkpoint and the changes in one transaction, and returns when they are on disk; c's Digest and
// Rows are computed. On ErrNoSpace and ErrTooLarge nothing was written and the store goes on. After any other error it
// is unknown whether it was: the store takes no further commit, and its owner opens it again (a failed fsync is never
// retried). One takes longer than another, because pages of earlier ones are merged at its end: of a few times its own
// bytes, or else one bucket. Keys and values may be reused once Commit has returned.
func (s *Store) Commit(c Checkpoint, changes []Change) error {
	if s.failed != nil {
		return fmt.Errorf("commit after an error: %w", s.failed)
	}
	size, err := s.measure(changes)
	if err != nil {
		return err
	}
	if err := s.room(s.minFree + int64(size)); err != nil {
		return err
	}
	c.Digest, c.Rows = s.last.Digest, s.last.Rows
	pages := s.pack(&c, changes, size)
	if err := s.db.Update(func(txn *badger.Txn) error { return s.write(txn, &c, pages) }); err != nil {
		s.failed = fmt.Errorf("commit: %w", err)
		return s.failed
	}
	s.last = c
	for _, p := range pages {
		s.buckets[p.bucket].add(page{number: s.number, size: len(p.content)})
		s.number++
	}
	if err := s.merge(mergeBudget*size + pageSize); err != nil {
		s.failed = fmt.Errorf("commit: %w", err)
		return s.failed
	}
	return nil
}

// measure returns the bytes of the changes, and whether they fit one transaction.
func (s *Store) measure(changes []Change) (int, error) {
	if len(changes) > s.MaxChanges() {
		return 0, fmt.Errorf("%w: got %d changes, want at most %d", ErrTooLarge, len(changes), s.MaxChanges())
	}
	size := 0
	for i := range changes {
		if len(changes[i].Key) > MaxKey || len(changes[i].Value) > MaxValue {
			return 0, fmt.Errorf("%w: got a row of %d and %d bytes, want at most %d and %d", ErrTooLarge,
				len(changes[i].Key), len(changes[i].Value), MaxKey, MaxValue)
		}
		size += changes[i].Bytes()
	}
	if size > s.MaxBytes() {
		return 0, fmt.Errorf("%w: got %d bytes, want at most %d", ErrTooLarge, size, s.MaxBytes())
	}
	return size, nil
}

// packed is a page that is not stored yet. Those of a commit have the numbers from Store.number on.
type packed struct {
	bucket  int
	content []byte
}

// pack puts the changes on a page for each bucket, or on several where they are long, and brings the checkpoint up
// to date with them.
func (s *Store) pack(c *Checkpoint, changes []Change, size int) []packed {
	contents := s.layOut(changes, size)
	s.pages = s.pages[:0]
	for i := range changes {
		change, hash := &changes[i], s.hashes[i]
		b := bucketOf(hash)
		contents[b] = appendRow(contents[b], change.Key, change.Value)
		if n := len(contents[b]); n >= pageSize {
			s.pages = append(s.pages, packed{b, contents[b]})
			contents[b] = contents[b][n:]
		}
		c.Digest -= change.Old
		if change.Old != 0 {
			c.Rows--
		}
		if change.Value != nil {
			c.Digest += sumOf(hash, change.Value)
			c.Rows++
		}
	}
	for b, content := range contents {
		if len(content) > 0 {
			s.pages = append(s.pages, packed{b, content})
		}
	}
	return s.pages
}

// layOut hashes the keys of the changes, and gives each bucket as much of the memory as its changes may take.
func (s *Store) layOut(changes []Change, size int) (contents [buckets][]byte) {
	var sizes [buckets]int
	s.hashes = slices.Grow(s.hashes[:0], len(changes))
	for i := range changes {
		hash := xxhash.Sum64(changes[i].Key)
		s.hashes = append(s.hashes, hash)
		sizes[bucketOf(hash)] += changes[i].Bytes()
	}
	s.memory = slices.Grow(s.memory[:0], size)
	at := 0
	for b, size := range sizes {
		contents[b] = s.memory[at : at : at+size]
		at += size
	}
	return contents
}

// write puts the pages and the checkpoint into the transaction.
func (s *Store) write(txn *badger.Txn, c *Checkpoint, pages []packed) error {
	for i, p := range pages {
		if err := txn.Set(pageKey(p.bucket, s.number+uint64(i)), p.content); err != nil {
			return fmt.Errorf("set page: %w", err)
		}
	}
	if err := txn.Set([]byte(checkpointKey), c.append(nil)); err != nil {
		return fmt.Errorf("set checkpoint: %w", err)
	}
	return nil
}

// room reports whether the filesystem has this many bytes free.
func (s *Store) room(want int64) error {
	free, err := freeBytes(s.dir)
	if err != nil {
		return fmt.Errorf("ask for free space: %w", err)
	}
	if free < want {
		return fmt.Errorf("%w: got %d MiB free, want %d", ErrNoSpace, free>>20, want>>20)
	}
	return nil
}

package store

import (
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/509da70d/floodgate/store/rows"
)

// Bounds on a row, in bytes.
const (
	maxKey   = 4 << 10
	maxValue = 512 << 10 // Badger would move a longer one to its value log
)

// maxChanges is how many rows one commit takes. (Badger counts pages, not rows.)
const maxChanges = 1 << 15

// Change is the new value of one row. A commit has at most one change for each key.
type Change = rows.Change

// MaxChanges returns how many changes one commit takes, if they also keep to MaxBytes.
func (s *Store) MaxChanges() int { return maxChanges }

// MaxBytes returns how many bytes of changes one commit takes, counted by Bytes.
func (s *Store) MaxBytes() int {
	size := int(s.db.MaxBatchSize())
	pages := buckets + size/pageSize // each bucket has one page that is not full
	return size - pages*pageOverhead - 1<<10
}

// Bytes returns how many of MaxBytes a change takes.
func Bytes(c *Change) int { return len(c.Key) + len(c.Value) + rowOverhead }

// Commit writes the checkpoint and the changes in one transaction, and returns when they are on disk. It computes c's Digest
// and Rows. On ErrNoSpace and ErrTooLarge nothing was written, and the store can be used further. After any other error the
// commit may or may not be on disk: the store accepts no further commit, and its owner opens it again. (A failed fsync is
// never retried.) At its end Commit compacts pages of earlier commits: a few times its own bytes, or at least one bucket if
// one is due. So some commits take longer than others. Keys and values may be reused when Commit has returned.
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
	s.last, s.bucketHash.stored = c, true
	for _, p := range pages {
		s.buckets[p.bucket].add(page{number: s.number, size: len(p.content)})
		s.number++
	}
	if err := s.compact(compactionBudget*size + pageSize); err != nil {
		s.failed = fmt.Errorf("commit: %w", err)
		return s.failed
	}
	return nil
}

// measure returns the bytes of the changes, or ErrTooLarge if they do not fit into one transaction.
func (s *Store) measure(changes []Change) (int, error) {
	if len(changes) > s.MaxChanges() {
		return 0, fmt.Errorf("%w: got %d changes, want at most %d", ErrTooLarge, len(changes), s.MaxChanges())
	}
	size := 0
	for i := range changes {
		if len(changes[i].Key) > maxKey || len(changes[i].Value) > maxValue {
			return 0, fmt.Errorf("%w: got a row of %d and %d bytes, want at most %d and %d", ErrTooLarge,
				len(changes[i].Key), len(changes[i].Value), maxKey, maxValue)
		}
		size += Bytes(&changes[i])
	}
	if size > s.MaxBytes() {
		return 0, fmt.Errorf("%w: got %d bytes, want at most %d", ErrTooLarge, size, s.MaxBytes())
	}
	return size, nil
}

// newPage is a page that is not stored yet. The pages of a commit get the numbers from Store.number on.
type newPage struct {
	bucket  int
	content []byte
}

// pack puts the changes of each bucket on one page, or on several if they are long. It also updates Digest and Rows of the
// checkpoint.
func (s *Store) pack(c *Checkpoint, changes []Change, size int) []newPage {
	contents := s.layOut(changes, size)
	s.pages = s.pages[:0]
	for i := range changes {
		change, b := &changes[i], int(s.homes[i])
		contents[b] = appendRow(contents[b], change.Key, change.Value)
		if n := len(contents[b]); n >= pageSize {
			s.pages = append(s.pages, newPage{b, contents[b]})
			contents[b] = contents[b][n:]
		}
		c.Digest -= change.Old
		if change.Old != 0 {
			c.Rows--
		}
		if change.Value != nil {
			c.Digest += rows.Sum(change.Key, change.Value)
			c.Rows++
		}
	}
	for b, content := range contents {
		if len(content) > 0 {
			s.pages = append(s.pages, newPage{b, content})
		}
	}
	return s.pages
}

// layOut finds the buckets of the changes, and gives each bucket as much of s.memory as its changes may take.
func (s *Store) layOut(changes []Change, size int) (contents [buckets][]byte) {
	var sizes [buckets]int
	s.homes = slices.Grow(s.homes[:0], len(changes))
	for i := range changes {
		home := s.bucketHash.bucketOf(changes[i].Key)
		s.homes = append(s.homes, uint8(home))
		sizes[home] += Bytes(&changes[i])
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
func (s *Store) write(txn *badger.Txn, c *Checkpoint, pages []newPage) error {
	for i, p := range pages {
		if err := txn.Set(pageKey(p.bucket, s.number+uint64(i)), p.content); err != nil {
			return fmt.Errorf("set page: %w", err)
		}
	}
	if err := txn.Set([]byte(checkpointKey), c.append(nil)); err != nil {
		return fmt.Errorf("set checkpoint: %w", err)
	}
	if s.bucketHash.stored {
		return nil
	}
	if err := txn.Set([]byte(bucketHashKey), s.bucketHash.append(nil)); err != nil {
		return fmt.Errorf("set the key of the bucket hash: %w", err)
	}
	return nil
}

// room returns ErrNoSpace if the filesystem has fewer than want bytes free.
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

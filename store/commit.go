package store

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Bounds on a row, in bytes.
const (
	MaxKey   = 4 << 10
	MaxValue = 512 << 10 // Badger would move a longer one to its value log
)

// rowOverhead is what Badger adds to the size of a key and a value in a transaction, and the prefix of the key.
const rowOverhead = 2 + 10 + 1

// Change is one row's new value. A commit has at most one change for a key.
type Change struct {
	Key   []byte
	Value []byte // nil deletes the row
	Old   uint64 // Sum of the row as committed last, 0 if it was not there
}

// MaxChanges returns how many changes surely fit one commit, as long as they also keep to MaxBytes.
func (s *Store) MaxChanges() int { return int(s.db.MaxBatchCount()) - 3 } // the limit is excluded; the checkpoint; the commit marker

// MaxBytes returns how many bytes of changes surely fit one commit, counted by Bytes.
func (s *Store) MaxBytes() int { return int(s.db.MaxBatchSize()) - 1<<10 }

// Bytes returns what the change counts towards MaxBytes.
func (c *Change) Bytes() int { return len(c.Key) + len(c.Value) + rowOverhead }

// Commit writes the checkpoint and the changes in one transaction, and returns when they are on disk; c's Digest and
// Rows are computed. On ErrNoSpace and ErrTooLarge nothing was written and the store goes on. After any other error it
// is unknown whether it was: the store takes no further commit, and its owner opens it again (a failed fsync is never
// retried). Keys and values may be reused once Commit has returned.
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
	if err := s.db.Update(func(txn *badger.Txn) error { return s.set(txn, &c, changes, size) }); err != nil {
		s.failed = fmt.Errorf("commit: %w", err)
		return s.failed
	}
	s.last = c
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

// set puts the changes and the checkpoint, brought up to date with them, into the transaction.
func (s *Store) set(txn *badger.Txn, c *Checkpoint, changes []Change, size int) error {
	if cap(s.keys) < size { // so that it does not move: Badger keeps the keys until the end of the transaction
		s.keys = make([]byte, 0, size)
	}
	keys := s.keys[:0]
	for i := range changes {
		change := &changes[i]
		start := len(keys)
		keys = append(append(keys, rowPrefix), change.Key...)
		key := keys[start:len(keys):len(keys)]
		c.Digest -= change.Old
		if change.Old != 0 {
			c.Rows--
		}
		if change.Value == nil {
			if err := txn.Delete(key); err != nil {
				return fmt.Errorf("delete row: %w", err)
			}
			continue
		}
		c.Digest += Sum(change.Key, change.Value)
		c.Rows++
		if err := txn.Set(key, change.Value); err != nil {
			return fmt.Errorf("set row: %w", err)
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

package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"
)

// Incomplete is the Next of a Checkpoint of which more parts follow in later transactions: the rows are not yet the fold of
// any log.
const Incomplete = -1

// Checkpoint says which part of the log the rows of a store are the fold of, and lets the owner recognise that log. The zero
// value is that of a store in which nothing was folded.
type Checkpoint struct {
	Next       int64  // offset of the first record not folded
	RulesID    uint64 // identifies the rules under which it was folded, …
	RulesFrom  int64  // … from this offset on
	LogTime    int64  // Unix nanoseconds: the newest time folded
	TailOffset int64  // offset of the last record folded, …
	TailCRC    uint32 // … and the checksum of its value, which differs if the log was truncated or re-created
	Placed     int64  // offset in the control topic behind the last place that was applied; 0 if none was
	Epoch      uint64 // the epoch of that place

	// The store sets these two; Commit ignores what they are.
	Digest uint64 // sum of Sum over the rows
	Rows   int64  // number of rows
}

const (
	checkpointFormat  = 1
	checkpointNumbers = 9
	checkpointSize    = 1 + 8*checkpointNumbers + 4 + 8 // format, numbers, checksum of the tail, checksum
)

// append appends c and a checksum to b.
func (c *Checkpoint) append(b []byte) []byte {
	start := len(b)
	b = append(b, checkpointFormat)
	for _, v := range []uint64{
		uint64(c.Next), c.RulesID, uint64(c.RulesFrom), c.Epoch, uint64(c.LogTime), uint64(c.TailOffset), c.Digest, uint64(c.Rows),
		uint64(c.Placed),
	} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, c.TailCRC)
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[start:]))
}

// decode reads what append wrote.
func (c *Checkpoint) decode(b []byte) error {
	if len(b) == 0 || b[0] != checkpointFormat {
		return fmt.Errorf("%w: checkpoint has an unknown format", ErrCorrupt)
	}
	if len(b) != checkpointSize {
		return fmt.Errorf("%w: checkpoint has %d bytes, want %d", ErrCorrupt, len(b), checkpointSize)
	}
	body, sum := b[:len(b)-8], binary.LittleEndian.Uint64(b[len(b)-8:])
	if xxhash.Sum64(body) != sum {
		return fmt.Errorf("%w: checkpoint's checksum differs", ErrCorrupt)
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(body[1+8*i:]) }
	*c = Checkpoint{
		Next: int64(number(0)), RulesID: number(1), RulesFrom: int64(number(2)), Epoch: number(3),
		LogTime: int64(number(4)), TailOffset: int64(number(5)), Digest: number(6), Rows: int64(number(7)),
		TailCRC: binary.LittleEndian.Uint32(body[1+8*checkpointNumbers:]),
		Placed:  int64(number(8)),
	}
	return nil
}

// readCheckpoint sets s.last from the store.
func (s *Store) readCheckpoint() error {
	c, err := s.storedCheckpoint()
	if err != nil {
		return err
	}
	s.last = c
	return nil
}

func (s *Store) storedCheckpoint() (Checkpoint, error) {
	var c Checkpoint
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get([]byte(checkpointKey))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read checkpoint: %w", err)
		}
		return item.Value(c.decode)
	})
	return c, err
}

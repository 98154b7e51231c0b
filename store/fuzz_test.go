package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// A checkpoint that decodes is the one that was written, byte for byte.
func FuzzCheckpoint(f *testing.F) {
	whole := Checkpoint{Next: -1, RulesID: 2, RulesFrom: 3, Epoch: 4, LogTime: 5, TailOffset: 6, TailCRC: 7, Digest: 8, Rows: 9, Placed: 10}
	f.Add(whole.append(nil))
	f.Add((&Checkpoint{}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Checkpoint
		if err := c.decode(b); err != nil {
			if c != (Checkpoint{}) {
				t.Fatalf("got %+v beside %v", c, err)
			}
			return
		}
		if again := c.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("got %x, want %x", again, b)
		}
	})
}

func TestEveryTruncationAndFlipOfACheckpointIsRefused(t *testing.T) {
	whole := (&Checkpoint{Next: 1, TailCRC: 2, Digest: 3}).append(nil)
	var c Checkpoint
	for n := range whole {
		if err := c.decode(whole[:n:n]); err == nil {
			t.Errorf("first %d bytes: got %+v", n, c)
		}
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[n] ^= 1 << bit
			if err := c.decode(b); err == nil {
				t.Errorf("bit %d of byte %d: got %+v", bit, n, c)
			}
		}
	}
	if err := c.decode(append(whole, 0)); err == nil {
		t.Errorf("a trailing byte: got %+v", c)
	}
}

// A checkpoint of another format is refused, also if its checksum is right: its owner rebuilds the store.
func TestACheckpointOfAnotherFormatIsRefused(t *testing.T) {
	b := (&Checkpoint{Next: 1, TailCRC: 2}).append(nil)
	b[0] = checkpointFormat + 1
	b = binary.LittleEndian.AppendUint64(b[:len(b)-8], xxhash.Sum64(b[:len(b)-8]))
	var c Checkpoint
	if err := c.decode(b); !errors.Is(err, ErrCorrupt) || c != (Checkpoint{}) {
		t.Errorf("got %+v and %v, want %v", c, err, ErrCorrupt)
	}
}

// No bytes make verifyTable panic, and none pass for a table but the table.
func FuzzVerifyTable(f *testing.F) {
	dir := f.TempDir()
	s, err := Open(dir, quiet())
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Commit(Checkpoint{Next: 1}, newRows(200, 1)); err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		f.Fatalf("got %d tables, %v, want 1", len(tables), err)
	}
	table, err := os.ReadFile(tables[0])
	if err != nil {
		f.Fatal(err)
	}
	if err := verifyTable(table); err != nil {
		f.Fatalf("as written: %v", err)
	}
	f.Add(0, byte(0), []byte{})
	f.Add(len(table), byte(1), []byte{})
	f.Add(len(table), byte(0), []byte{0, 0, 0, 0})
	f.Add(len(table)-9, byte(0), []byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, cut int, flip byte, tail []byte) {
		b := append(bytes.Clone(table[:min(max(cut, 0), len(table))]), tail...)
		if len(b) > 0 {
			b[cut&0xffff%len(b)] ^= flip
		}
		if err := verifyTable(b); err == nil && !bytes.Equal(b, table) {
			t.Fatal("passed for a table")
		}
	})
}

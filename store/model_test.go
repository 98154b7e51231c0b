package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/rows"
)

// Any sequence of commits, refused commits, compactions and openings again leaves the rows of a plain map, and a digest that depends on
// nothing but them.
func TestStoreIsAMapWithADigest(t *testing.T) {
	t.Parallel()
	testenv.Fewer(t, 25)
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(root, fmt.Sprint(runs))
		defer func() { _ = os.RemoveAll(dir) }()
		m := &machine{t: t, dir: dir, rows: make(map[string][]byte)}
		m.open()
		defer func() { _ = m.s.Close() }()
		actions := []func(*rapid.T){m.commit, m.commit, m.commit, m.refuse, m.compact, m.reopen}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			rapid.SampledFrom(actions).Draw(t, "action")(t)
			m.check(t)
		}
	})
}

// machine is a store and what it must be.
type machine struct {
	t          *rapid.T
	dir        string
	s          *Store
	rows       map[string][]byte
	checkpoint Checkpoint
}

func (m *machine) open() {
	s, err := Open(m.dir, quiet())
	if err != nil {
		m.t.Fatal(err)
	}
	m.s = s
}

func (m *machine) close() {
	if err := m.s.Close(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) reopen(*rapid.T) {
	m.close()
	m.open()
}

// draw returns changes of different rows, true about what they replace.
func (m *machine) draw(t *rapid.T) []Change {
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "a", "b", "c", "ab", "\xff", "r"}), 0, 5, rapid.ID).Draw(t, "keys")
	var changes []Change
	for _, key := range keys {
		c := Change{Key: []byte(key)}
		if old, ok := m.rows[key]; ok {
			c.Old = rows.Sum(c.Key, old)
		}
		if rapid.Bool().Draw(t, "set") {
			c.Value = append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value")...)
		}
		changes = append(changes, c)
	}
	return changes
}

func (m *machine) commit(t *rapid.T) {
	changes := m.draw(t)
	m.checkpoint = Checkpoint{
		Next: rapid.Int64().Draw(t, "next"), RulesID: rapid.Uint64().Draw(t, "rules"), RulesFrom: rapid.Int64().Draw(t, "from"),
		Epoch: rapid.Uint64().Draw(t, "epoch"), LogTime: rapid.Int64().Draw(t, "time"),
		TailOffset: rapid.Int64().Draw(t, "tail"), TailCRC: rapid.Uint32().Draw(t, "crc"),
		Placed: rapid.Int64().Draw(t, "placed"),
	}
	given := m.checkpoint
	given.Digest, given.Rows = rapid.Uint64().Draw(t, "digest"), 99 // not looked at
	if err := m.s.Commit(given, changes); err != nil {
		t.Fatal(err)
	}
	apply(m.rows, changes)
}

// compact compacts every bucket, due or not. A bucket whose rows are all deleted then has no page.
func (m *machine) compact(t *rapid.T) {
	err := m.s.inSplitTxn(func(txn *splitTxn) error {
		for i := range m.s.buckets {
			compacted, err := m.s.compactBucket(txn, i, &m.s.buckets[i])
			if err != nil {
				return err
			}
			m.s.buckets[i] = compacted
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages, _ := size(m.s); pages > len(m.rows) {
		t.Fatalf("got %d pages for %d rows", pages, len(m.rows))
	}
}

// refuse commits something that does not fit.
func (m *machine) refuse(t *rapid.T) {
	changes := append(m.draw(t), Change{Key: []byte("large"), Value: make([]byte, maxValue+1)})
	if err := m.s.Commit(Checkpoint{Next: 1}, changes); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v, want %v", err, ErrTooLarge)
	}
}

func (m *machine) check(t *rapid.T) {
	want := m.checkpoint
	for key, value := range m.rows {
		want.Digest += rows.Sum([]byte(key), value)
		want.Rows++
	}
	if got := m.s.Checkpoint(); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if err := m.s.Check(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	err := m.s.Load(func(key, value []byte) error {
		if w, ok := m.rows[string(key)]; !ok || !bytes.Equal(w, value) {
			return fmt.Errorf("row %q: got %x, want %x", key, value, w)
		}
		if seen[string(key)] {
			return fmt.Errorf("row %q: got it twice", key)
		}
		seen[string(key)] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

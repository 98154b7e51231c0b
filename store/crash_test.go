package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// crashRows is how many rows the process that is killed keeps changing.
const crashRows = 500

// crashChanges returns commit n of the story that commitForever writes and TestKill9 tells again: some rows count up,
// some go and come back.
func crashChanges(n int64, rows map[string][]byte) []Change {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	taken := make(map[string]bool)
	var changes []Change
	for range 100 {
		key := fmt.Sprint("row-", random.IntN(crashRows))
		if taken[key] {
			continue
		}
		taken[key] = true
		c := Change{Key: []byte(key)}
		if old, ok := rows[key]; ok {
			c.Old = Sum(c.Key, old)
		}
		if random.IntN(10) > 0 {
			c.Value = binary.LittleEndian.AppendUint64(bytes.Repeat([]byte{byte(n)}, random.IntN(2000)), uint64(n))
		}
		changes = append(changes, c)
	}
	return changes
}

// apply makes the changes in the model.
func apply(rows map[string][]byte, changes []Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(rows, string(c.Key))
		} else {
			rows[string(c.Key)] = c.Value
		}
	}
}

// commitForever is the process that is killed: it goes on where the store stands, and commits until it dies, saying
// after each commit how many there are.
func commitForever(out io.Writer, dir string) error {
	o := quiet()
	o.NoSync = false
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	rows := make(map[string][]byte)
	err = s.Load(func(key, value []byte) error {
		rows[string(key)] = bytes.Clone(value)
		return nil
	})
	for n := s.Checkpoint().Next; err == nil; n++ {
		changes := crashChanges(n, rows)
		apply(rows, changes)
		if err = s.Commit(Checkpoint{Next: n + 1}, changes); err == nil {
			_, err = fmt.Fprintln(out, n+1)
		}
	}
	return err
}

// After any number of kills the store holds the rows of exactly the commits that its checkpoint counts, and no commit
// that was acknowledged is missing.
func TestKill9(t *testing.T) {
	dir := t.TempDir()
	rows := make(map[string][]byte) // of commits told so far
	told := int64(0)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 8 {
		acknowledged := runUntilKilled(t, dir, time.Duration(random.IntN(200))*time.Millisecond)
		s := open(t, dir)
		next := s.Checkpoint().Next
		if next < acknowledged || next < told {
			t.Fatalf("round %d: got %d commits, want at least the %d acknowledged and the %d read before", round, next, acknowledged, told)
		}
		for ; told < next; told++ {
			apply(rows, crashChanges(told, rows))
		}
		if err := sameRows(s, rows); err != nil {
			t.Fatalf("round %d, after commit %d: %v", round, next, err)
		}
		closeChecked(t, s)
	}
	if told < 8 {
		t.Errorf("got %d commits over all rounds, want some in each", told)
	}
}

// runUntilKilled runs commitForever and kills it the given time after its first commit. It returns the last commit that
// the process said was on disk.
func runUntilKilled(t *testing.T, dir string, after time.Duration) int64 {
	t.Helper()
	cmd := child(t, "commit", dir)
	out := &firstWrite{seen: make(chan struct{})}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-out.seen:
	case <-time.After(20 * time.Second):
		t.Error("no commit within 20 s")
	}
	<-time.After(after) // a kill at any moment is the point
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	last := int64(0)
	for line := range bytes.FieldsSeq(out.said[:bytes.LastIndexByte(out.said, '\n')+1]) {
		if _, err := fmt.Sscan(string(line), &last); err != nil {
			t.Fatalf("the process said: %s", out.said)
		}
	}
	return last
}

// firstWrite keeps what is written, and tells when something was. Read it when the process has ended.
type firstWrite struct {
	said []byte
	seen chan struct{}
}

func (w *firstWrite) Write(b []byte) (int, error) {
	if len(w.said) == 0 {
		close(w.seen)
	}
	w.said = append(w.said, b...)
	return len(b), nil
}

// sameRows compares the store with a model.
func sameRows(s *Store, want map[string][]byte) error {
	got := 0
	err := s.Load(func(key, value []byte) error {
		got++
		if w, ok := want[string(key)]; !ok || !bytes.Equal(value, w) {
			return fmt.Errorf("row %s: got %d bytes, want %d", key, len(value), len(w))
		}
		return nil
	})
	if err == nil && got != len(want) {
		err = fmt.Errorf("got %d rows, want %d", got, len(want))
	}
	return err
}

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestQuarantineMovesAStoreAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "partition-3")
	s := open(t, dir)
	commit(t, s, 1, put("a", "1"))
	at := time.Date(2026, 11, 21, 12, 30, 0, 0, time.FixedZone("CET", 3600))
	if _, err := Quarantine(dir, at); !errors.Is(err, ErrLocked) {
		t.Fatalf("in use: got %v, want %v", err, ErrLocked)
	}
	closeChecked(t, s)
	moved, err := Quarantine(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	if want := dir + ".broken-20261121T113000.000000000Z"; moved != want {
		t.Errorf("got %s, want %s", moved, want)
	}
	lock, err := Lock(moved)
	if err != nil {
		t.Fatalf("moved aside: got %v, want it free", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, dir).Checkpoint(); got != (Checkpoint{}) {
		t.Errorf("in its place: got %+v, want a new store", got)
	}
	if got := rowsOf(t, open(t, moved)); got != "a=1" {
		t.Errorf("moved aside: got %q, want a=1", got)
	}
}

func TestQuarantineKeepsTheNewest(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "p[1]*")
	bystander := filepath.Join(parent, "p[1]*2.broken-1")
	if err := os.Mkdir(bystander, 0o750); err != nil {
		t.Fatal(err)
	}
	var moved []string
	for i := range 6 {
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		m, err := Quarantine(dir, time.Unix(int64(i), 0))
		if err != nil {
			t.Fatal(err)
		}
		moved = append(moved, m)
	}
	for i, m := range moved {
		_, err := os.Stat(m)
		if removed := errors.Is(err, fs.ErrNotExist); removed != (i < 3) {
			t.Errorf("store %d: got removed %v, want only the newest three to stay", i, removed)
		}
	}
	if _, err := os.Stat(bystander); err != nil {
		t.Errorf("another store's quarantine: %v", err)
	}
}

func TestQuarantineNeedsAStore(t *testing.T) {
	if _, err := Quarantine(filepath.Join(t.TempDir(), "none"), time.Unix(0, 0)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func ExampleQuarantine() {
	dir := filepath.Join(os.TempDir(), "no-such-store")
	s, err := Open(dir, Options{MinFree: 1})
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrDigest) {
		if _, err = Quarantine(dir, time.Now()); err == nil {
			s, err = Open(dir, Options{MinFree: 1}) // empty: rebuild it from the log
		}
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Checkpoint().Next)
	_ = s.Close()
	_ = os.RemoveAll(dir)
	// Output: 0
}

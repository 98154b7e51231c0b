package store

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// newDisk mounts a small filesystem in memory.
func newDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small filesystem to fill up cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// unmount waits until the garbage collector has closed the files that Badger could not map, and leaves open.
func unmount(dir string) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := unix.Unmount(dir, 0)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

// fill takes space on the disk until only so many bytes are left.
func fill(t *testing.T, disk string, leave int64) {
	t.Helper()
	free, err := freeBytes(disk)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, max(free-leave, 1)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// unfill gives the space back.
func unfill(t *testing.T, disk string) {
	t.Helper()
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
}

// A disk that fills up, by the store or by others, stops commits before it stops the process: Badger writes through
// memory maps, and a map without a disk behind it is a SIGBUS. With the space comes the store back.
func TestFullDisk(t *testing.T) {
	testenv.Long(t)
	disk := newDisk(t, "320m")
	dir := filepath.Join(disk, "store")
	o := quiet()
	o.MinFree = 0 // the default
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]byte)
	next := int64(0)
	try := func() error {
		changes := crashChanges(next, rows)
		err := s.Commit(Checkpoint{Next: next + 1}, changes)
		if err == nil {
			apply(rows, changes)
			next++
		}
		return err
	}
	for cycle := range 20 {
		if err := try(); err != nil {
			t.Fatalf("cycle %d, with space: %v", cycle, err)
		}
		before := next
		fill(t, disk, defaultMinFree+1<<20)
		for err = try(); err == nil && next-before < 1000; {
			err = try()
		}
		if !errors.Is(err, ErrNoSpace) {
			t.Fatalf("cycle %d, after %d commits on a disk that fills up: got %v, want %v", cycle, next-before, err, ErrNoSpace)
		}
		unfill(t, disk)
	}
	t.Log(next, "commits")
	if err := errors.Join(sameRows(s, rows), s.Check(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// Others may take the last byte while the store does nothing.
func TestFullDiskAtTheEnd(t *testing.T) {
	disk := newDisk(t, "200m")
	dir := filepath.Join(disk, "store")
	o := quiet()
	o.MinFree = 0 // the default
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, 1, put("a", "1"))
	empty, err := Open(filepath.Join(disk, "empty"), o)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, disk, 0)
	if err := errors.Join(empty.Close(), empty.Close()); err != nil {
		t.Errorf("close of a store without a commit: got %v, want nothing to write", err)
	}
	if err := s.Commit(Checkpoint{Next: 2}, nil); !errors.Is(err, ErrNoSpace) {
		t.Errorf("commit: got %v, want %v", err, ErrNoSpace)
	}
	if err := s.Close(); !errors.Is(err, ErrNoSpace) {
		t.Errorf("close: got %v, want %v", err, ErrNoSpace)
	}
	if got := rowsOf(t, s); got != "a=1" {
		t.Errorf("got %q, want to read it still", got)
	}
	unfill(t, disk)
	commit(t, s, 2, put("b", "2"))
	closeChecked(t, s)
	fill(t, disk, defaultMinFree/2)
	if _, err := Open(dir, o); !errors.Is(err, ErrNoSpace) {
		t.Errorf("open: got %v, want %v", err, ErrNoSpace)
	}
	unfill(t, disk)
	if s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	if got := rowsOf(t, s); got != "a=1 b=2" {
		t.Errorf("got %q, want both commits", got)
	}
	closeChecked(t, s)
}

// The store itself may be what fills the disk. defaultMinFree leaves enough for what Badger does in the background with
// what was committed before, and for compactions, even of one bucket that has all rows.
func TestStoreThatFillsItsDisk(t *testing.T) {
	testenv.Long(t)
	random := rand.New(rand.NewPCG(1, 1))
	t.Run("spread", func(t *testing.T) {
		fillItsDisk(t, func(int) []byte { return binary.BigEndian.AppendUint64(nil, random.Uint64()) })
	})
	t.Run("crowded", func(t *testing.T) {
		keys := crowd(4000)
		fillItsDisk(t, func(n int) []byte { return []byte(keys[n]) })
	})
}

// fillItsDisk commits new rows until there is no room.
func fillItsDisk(t *testing.T, key func(n int) []byte) {
	t.Helper()
	dir := filepath.Join(newDisk(t, "256m"), "store")
	o := quiet()
	o.MinFree = 0 // the default
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	publish(s)
	value := make([]byte, 64<<10)
	for next := int64(1); ; next++ {
		var changes []Change
		for i := range 16 {
			changes = append(changes, Change{Key: key(int(next)*16 + i), Value: value})
		}
		if err = s.Commit(Checkpoint{Next: next}, changes); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrNoSpace) {
		t.Errorf("after %d rows: got %v, want %v", s.Checkpoint().Rows, err, ErrNoSpace)
	}
	// How many fit depends on what Badger does in the background at that moment: 784 to 1264 were seen.
	if s.Checkpoint().Rows < 16*32 {
		t.Errorf("got %d rows on the disk, want more", s.Checkpoint().Rows)
	}
	closeChecked(t, s)
}

package store

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// unguarded returns options of a store that writes whatever is free, as one does whose disk is filled up after it has asked.
func unguarded() Options {
	o := quiet()
	o.MinFree = math.MinInt64 / 2
	return o
}

// wantNoRoom fails the test unless err says that the disk is full. Badger passes on the text of an error only.
func wantNoRoom(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) || errors.Is(err, ErrCorrupt) {
		t.Fatalf("on a full disk: got %v, want %v", err, syscall.ENOSPC)
	}
}

// flushFailed receives when Badger has logged that it could not write a table, and will try again.
type flushFailed chan struct{}

func (f flushFailed) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "error flushing memtable") && strings.Contains(string(line), syscall.ENOSPC.Error()) {
		select {
		case f <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// Others may take the space between the question whether there is room and the write of a table. Without the reserved blocks this
// test ends its process by SIGBUS, on a goroutine of Badger.
func TestAFullDiskIsAnErrorAndNoSignal(t *testing.T) {
	testenv.Long(t)
	disk := newDisk(t, "200m")
	dir := filepath.Join(disk, "store")
	o, failed := unguarded(), make(flushFailed, 1)
	o.Logger = slog.New(slog.NewTextHandler(failed, nil))
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]byte)
	next := int64(0)
	for next = range int64(1000) {
		if logs, err := filepath.Glob(filepath.Join(dir, "*.mem")); err != nil || len(logs) > 1 {
			break // the first write-ahead file is full, and its rows go to a table
		}
		if next == 4 {
			fill(t, disk, 15<<20) // enough for the write-ahead files, and too little for the table
		}
		key := binary.BigEndian.AppendUint64(nil, uint64(next))
		changes := []Change{{Key: key, Value: make([]byte, 500<<10)}, {Key: append(key, 0), Value: make([]byte, 500<<10)}}
		if err := s.Commit(Checkpoint{Next: next + 1}, changes); err != nil {
			t.Fatal(err)
		}
		apply(rows, changes)
	}
	if next <= 4 {
		t.Fatalf("got a full write-ahead file after %d commits, before the disk was full", next)
	}
	<-failed
	unfill(t, disk)
	if err := errors.Join(sameRows(s, rows), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	if got := s.Checkpoint().Next; got != next {
		t.Errorf("got a checkpoint at %d, want %d", got, next)
	}
	if err := errors.Join(sameRows(s, rows), s.Check(), s.Close()); err != nil {
		t.Error(err)
	}
}

// A disk that is filled up while a store is opened is too little space, and no damage. The next Open finds what was there.
func TestOpenOnADiskThatFillsUp(t *testing.T) {
	testenv.Long(t)
	disk := newDisk(t, "200m")
	dir := filepath.Join(disk, "store")
	for _, name := range []string{"a new store", "a store with rows"} {
		fill(t, disk, 0)
		_, err := Open(dir, unguarded())
		if wantNoRoom(t, err); !errors.Is(err, ErrNoSpace) {
			t.Errorf("%s: got %v, want %v", name, err, ErrNoSpace)
		}
		unfill(t, disk)
		s, err := Open(dir, unguarded())
		if err != nil {
			t.Fatalf("%s, with room again: %v", name, err)
		}
		if got := s.Checkpoint().Next; got != 0 && rowsOf(t, s) != "a=1" {
			t.Errorf("%s: got %q, want its row", name, rowsOf(t, s))
		}
		if s.Checkpoint().Next == 0 {
			commit(t, s, 1, put("a", "1"))
		}
		closeChecked(t, s)
	}
}

// TestReserve: a file gets all its blocks or an error, and what is in it stays.
func TestReserve(t *testing.T) {
	disk := newDisk(t, "8m")
	f, err := os.Create(filepath.Join(disk, "file"))
	if err != nil {
		t.Fatal(err)
	}
	fd := int(f.Fd())
	stat := func() (st unix.Stat_t) {
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	if err := f.Truncate(16 << 20); err != nil {
		t.Fatal(err)
	}
	if err := reserve(fd, 0, 16<<20); !errors.Is(err, unix.ENOSPC) || stat().Size != 0 || stat().Blocks != 0 {
		t.Errorf("too long: got %v and %d bytes, want %v and an empty file", err, stat().Size, unix.ENOSPC)
	}
	if _, err := f.WriteAt([]byte("kept"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(16 << 20); err != nil {
		t.Fatal(err)
	}
	if err := reserve(fd, 0, 16<<20); !errors.Is(err, unix.ENOSPC) || stat().Size != 16<<20 {
		t.Errorf("too long, with content: got %v and %d bytes, want %v and the file as it was", err, stat().Size, unix.ENOSPC)
	}
	if err := f.Truncate(4 << 20); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := reserve(fd, 0, 4<<20); err != nil || stat().Blocks*512 != 4<<20 {
			t.Errorf("got %v and %d blocks, want all of 4 MiB", err, stat().Blocks)
		}
	}
	content := make([]byte, 4)
	if _, err := f.ReadAt(content, 0); err != nil || string(content) != "kept" {
		t.Errorf("got %q, %v, want what was written", content, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyWhatIsWrittenThroughAMapGetsBlocks: a file that is mapped to be read, or mapped so that writes stay in memory, keeps its
// holes.
func TestOnlyWhatIsWrittenThroughAMapGetsBlocks(t *testing.T) {
	const size = 1 << 20
	for name, test := range map[string]struct {
		prot, flags int
		blocks      int64
	}{
		"to write":           {unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED, size / 512},
		"to read":            {unix.PROT_READ, unix.MAP_SHARED, 0},
		"to write in memory": {unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE, 0},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "file"))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		b, err := unix.Mmap(int(f.Fd()), 0, size, test.prot, test.flags)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Munmap(b), f.Close()); err != nil {
			t.Fatal(err)
		}
		if st.Blocks != test.blocks {
			t.Errorf("%s: got %d blocks, want %d", name, st.Blocks, test.blocks)
		}
	}
}

// TestAWriteAheadFileHasTheBlocksOfItsStart: Badger writes there at once, through a map.
func TestAWriteAheadFileHasTheBlocksOfItsStart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	logs := files(t, dir, "*.mem")
	if len(logs) != 1 || allocated(logs[0]) < 64<<10 || allocated(logs[0]) > 1<<20 {
		t.Errorf("got %d write-ahead files, want one with some 64 KiB", len(logs))
	}
	closeChecked(t, s)
}

package store

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDiskCountsWhatIsWritten: all files below the directory, of whichever store, and holes only where the system counts them.
func TestDiskCountsWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	used, free, err := Disk(dir)
	if used != 0 || free <= 0 || err != nil {
		t.Fatalf("empty: got %d, %d, %v, want 0 used and some free", used, free, err)
	}
	for _, path := range []string{"0/000001.vlog", "1/deep/MANIFEST", "0.moved-aside/x"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil { // filesystems that allocate late do it now
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if used, _, err := Disk(dir); used < 3*64<<10 || used > 3*128<<10 || used%512 != 0 || err != nil {
		t.Errorf("got %d, %v, want the blocks of three files of 64 KiB", used, err)
	}
}

// TestDiskThatIsNotThere is an error, and no panic or zero that looks like a full disk.
func TestDiskThatIsNotThere(t *testing.T) {
	if _, _, err := Disk(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("got no error, want one")
	}
}

// TestDiskOfAStoreInUse: its files come and go while they are counted, and the sum is never more than was ever there.
func TestDiskOfAStoreInUse(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(filepath.Join(dir, "0"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, 1, put("a", "1"))
	used, free, err := Disk(dir)
	if used <= 0 || used > 8<<20 || free <= 0 || err != nil {
		t.Errorf("got %d, %d, %v, want the files of a small store, and not the 32 MiB of a full write-ahead file", used, free, err)
	}
	closeChecked(t, s)
}

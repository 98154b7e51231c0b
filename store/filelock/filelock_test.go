package filelock_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/509da70d/floodgate/store/filelock"
)

// TestOneHolderAtATime: a second Open is refused at once, and succeeds after the first file is closed.
func TestOneHolderAtATime(t *testing.T) {
	if !filelock.Supported {
		t.Skip("this system has no such locks")
	}
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.Open(path); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := filelock.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

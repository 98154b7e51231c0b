package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/509da70d/floodgate/store/atomicfile"
)

// TestTheOldContentStaysUntilTheNewIsThere, also where a crash has left a half of what was to replace it.
func TestTheOldContentStaysUntilTheNewIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	want := func(content string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Fatalf("got %q and %v, want %q", got, err, content)
		}
	}
	if err := atomicfile.Write(path, []byte("a long first content")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("half of what was to be the second content, and lo"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("a long first content")
	if err := atomicfile.Write(path, []byte("second")); err != nil {
		t.Fatal(err)
	}
	want("second")
	if err := os.Mkdir(path+".new", 0o700); err != nil { // where the new content should go
		t.Fatal(err)
	}
	if err := atomicfile.Write(path, []byte("third")); err == nil {
		t.Error("got no error, want that of the directory")
	}
	want("second")
}

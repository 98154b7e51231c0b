package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIsNoTerminal: a buffer, a file and a device are none. They get no colours, and have no size.
func TestWhatIsNoTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if Is(f) || Interactive(f) || Is(null) || Is(&strings.Builder{}) {
		t.Error("got a terminal, want none")
	}
	for _, w := range []*os.File{f, null} {
		if columns, lines, ok := Size(w); ok {
			t.Errorf("%s: got %d × %d, want no size", w.Name(), columns, lines)
		}
	}
	if _, _, ok := Size(&strings.Builder{}); ok {
		t.Error("got the size of a buffer")
	}
}

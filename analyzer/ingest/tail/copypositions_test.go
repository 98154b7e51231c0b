package tail

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// positionsAt makes a directory with a position of a log.
func positionsAt(t *testing.T, end int64) string {
	t.Helper()
	dir := t.TempDir()
	p := openPositions(t, dir)
	p.add(&logFile{Path: "/a", Source: sourceID{1}, Acked: place{End: end}, Read: place{End: end}})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPositionsGoToAnotherDirectory(t *testing.T) {
	from, to := positionsAt(t, 7), filepath.Join(t.TempDir(), "new")
	for range 2 { // the second time they are there
		if err := CopyPositions(from, to); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{from, to} {
			p := openPositions(t, dir)
			if got := p.of("/a"); len(got) != 1 || got[0].Acked.End != 7 || got[0].Source != (sourceID{1}) {
				t.Errorf("%s: got %+v, want it at 7", dir, got)
			}
			if got := p.Paths(); !slices.Equal(got, []string{"/a"}) {
				t.Errorf("%s: got paths %q, want /a", dir, got)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	none := t.TempDir()
	if err := CopyPositions(none, to); err != nil {
		t.Errorf("nothing to copy: got %v", err)
	}
	if err := CopyPositions(to, none); err != nil {
		t.Errorf("to a directory without positions: got %v", err)
	}
	if _, err := os.Stat(filepath.Join(none, positionsName)); err != nil {
		t.Error(err)
	}
}

func TestPositionsOfOthersStay(t *testing.T) {
	from, to := positionsAt(t, 7), positionsAt(t, 9)
	if err := CopyPositions(from, to); !errors.Is(err, ErrOtherPositions) {
		t.Errorf("got %v, want %v", err, ErrOtherPositions)
	}
	p := openPositions(t, to) // the lock was let go
	if got := p.of("/a"); len(got) != 1 || got[0].Acked.End != 9 {
		t.Errorf("got %+v, want it at 9", got)
	}
	for _, err := range []error{CopyPositions(from, to), CopyPositions(to, from)} {
		if !errors.Is(err, ErrLocked) {
			t.Errorf("in use: got %v, want %v", err, ErrLocked)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openPositions(t, from).Close(); err != nil {
		t.Error(err)
	}
}

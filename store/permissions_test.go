package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mustBePrivate fails if any user but the owner has a permission on dir or on anything in it.
func mustBePrivate(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if n++; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s: got mode %v, want %v", path, info.Mode(), want)
		}
		return err
	})
	if err != nil || n < 5 {
		t.Errorf("got %d files, %v, want a store", n, err)
	}
}

// loosen makes the permissions of a directory and its files what a careless umask leaves.
func loosen(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		err = errors.Join(err, os.Chmod(filepath.Join(dir, e.Name()), 0o644))
	}
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
}

// TestNobodyElseReadsAStore: a new one, one that is in use, one that was closed, and one that was made before stores were
// kept private.
func TestNobodyElseReadsAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "counts", "0")
	for round := range 3 {
		s, err := Open(dir, Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		mustBePrivate(t, filepath.Dir(dir))
		change := Change{Key: fmt.Append(nil, "key", round), Value: bytes.Repeat([]byte("v"), 1000)}
		if err := s.Commit(Checkpoint{Next: int64(round) + 1}, []Change{change}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("in use: got %v, %v, want a directory of its owner", info.Mode(), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		mustBePrivate(t, filepath.Dir(dir))
		loosen(t, dir)
	}
}

// TestEachPermissionOfOthersIsTaken, and none of the owner's.
func TestEachPermissionOfOthersIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o601, 0o602, 0o604, 0o610, 0o620, 0o640, 0o677, 0o777, 0o400, 0o700} {
		if err := errors.Join(os.Chmod(path, mode), removeOthers(path)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode&0o700 {
			t.Errorf("mode %v: got %v, %v, want %v", mode, info.Mode(), err, mode&0o700)
		}
	}
}

// TestLinksLeadNowhere: what a store's directory links to is not the store's.
func TestLinksLeadNowhere(t *testing.T) {
	dir, elsewhere := filepath.Join(t.TempDir(), "0"), filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(elsewhere, nil, 0o600), os.Chmod(elsewhere, 0o644), os.Symlink(elsewhere, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got %v, %v, want what is linked to as it was", info.Mode(), err)
	}
}

// TestAStoreThatCannotBePrivateCounts, and says so.
func TestAStoreThatCannotBePrivateCounts(t *testing.T) {
	var logs strings.Builder
	s := &Store{dir: filepath.Join(t.TempDir(), "none", "\x00"), logger: slog.New(slog.NewTextHandler(&logs, nil))}
	s.keepPrivate()
	if !strings.Contains(logs.String(), "other users may read the store") {
		t.Errorf("got %q, want a warning", logs.String())
	}
}

//go:build unix

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestALockSaysWhoHasIt: the second to ask learns the first one's process; once that has closed, the lock is free.
func TestALockSaysWhoHasIt(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	process := fmt.Sprintf("process %d on %s", os.Getpid(), host)
	owner := fmt.Sprintf("store is in use by %q: ", process)
	for name, lock := range map[string]func(dir string) (func() error, error){
		"directory": func(dir string) (func() error, error) {
			l, err := Lock(dir)
			if err != nil {
				return nil, err
			}
			return l.Close, nil
		},
		"store": func(dir string) (func() error, error) {
			s, err := Open(dir, quiet())
			if err != nil {
				return nil, err
			}
			return s.Close, nil
		},
	} {
		dir := t.TempDir()
		for range 3 {
			unlock, err := lock(dir)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := lock(dir); !errors.Is(err, ErrLocked) || err.Error() != owner+dir {
				t.Errorf("%s: got %v, want %s%s", name, err, owner, dir)
			}
			if got, locked := LockedBy(dir); got != process || !locked {
				t.Errorf("%s: got %q, %v, want %q, true", name, got, locked, process)
			}
			if err := unlock(); err != nil {
				t.Fatal(err)
			}
			if got, locked := LockedBy(dir); got != "" || locked {
				t.Errorf("%s: got %q, %v after it was unlocked, want none", name, got, locked)
			}
		}
	}
	if got, locked := LockedBy(t.TempDir()); got != "" || locked {
		t.Errorf("got %q, %v in an empty directory, want none", got, locked)
	}
	if _, err := Lock(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: got %v, want os.ErrNotExist", err)
	}
}

// TestALockOfALongerNameLeavesNothingBehind, and a lock in which nothing or anything stands only lacks its owner.
func TestALockOfALongerNameLeavesNothingBehind(t *testing.T) {
	for before, want := range map[string]string{
		strings.Repeat("x", 1000): "", "": "", "no end": "", "\n": "", "process 7 on \x1b[2J\nmore\n": ` by "process 7 on \x1b[2J"`,
	} {
		path := filepath.Join(t.TempDir(), lockFile)
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readOwner(path); got != want {
			t.Errorf("%q: got %q, want %q", before, got, want)
		}
		l, err := Lock(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), fmt.Sprintf("process %d on ", os.Getpid())) || strings.Count(string(text), "\n") != 1 || strings.Contains(string(text), "x\n") && len(text) > 900 {
			t.Errorf("%q: got %q and %v, want this process alone", before, text, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

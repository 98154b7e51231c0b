package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/filewatch"
)

// TestWatcherFaults puts something else in the place of a good file: it is an error once, however often it is looked at,
// and is taken back by the file's return, although that says what has been running all along.
func TestWatcherFaults(t *testing.T) {
	faults := map[string]struct {
		put  func(path string) error
		want string // part of the error
	}{
		"nothing":            {func(string) error { return nil }, "no such file"},
		"a directory":        {func(path string) error { return os.Mkdir(path, 0o700) }, "want a regular file"},
		"a pipe":             {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "want a regular file"},
		"a socket's kind":    {func(path string) error { return os.Symlink("/dev/null", path) }, "want a regular file"},
		"a dangling link":    {func(path string) error { return os.Symlink("nowhere", path) }, "no such file"},
		"a link to itself":   {func(path string) error { return os.Symlink(filepath.Base(path), path) }, "too many levels"},
		"an empty file":      {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "got nothing, want version and rules"},
		"a null byte":        {func(path string) error { return os.WriteFile(path, []byte{0}, 0o600) }, ":1:1: "},
		"a file cut in half": {func(path string) error { return os.WriteFile(path, []byte(oneRule[:len(oneRule)/2]), 0o600) }, ":2:"},
		"a program":          {func(path string) error { return os.WriteFile(path, []byte("\x7fELF\x02\x01\x01\x80"), 0o600) }, "got byte 0x80, want UTF-8"},
		"more than a megabyte": {func(path string) error {
			return os.WriteFile(path, []byte(oneRule+strings.Repeat("#\n", document.MaxFile/2)), 0o600)
		}, "got more than 1048576 bytes"},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *watched, events chan<- fsnotify.Event) {
				look := func() {
					events <- fsnotify.Event{}
					time.Sleep(filewatch.SettleQuiet)
					synctest.Wait()
				}
				if err := errors.Join(os.Remove(w.path), fault.put(w.path)); err != nil {
					t.Fatal(err)
				}
				look()
				if len(w.reports) != 1 {
					t.Fatalf("got %d reports, want one error", len(w.reports))
				}
				if r := <-w.reports; r.err == nil || r.set != nil || !strings.Contains(r.err.Error(), fault.want) {
					t.Errorf("got %+v, want an error with %q", r, fault.want)
				}
				look()
				time.Sleep(3 * filewatch.PollInterval)
				synctest.Wait()
				if len(w.reports) != 0 {
					t.Errorf("got %+v, want the same error said once", <-w.reports)
				}
				if err := os.RemoveAll(w.path); err != nil {
					t.Fatal(err)
				}
				w.replace(oneRule)
				look()
				w.next(1)
			})
		})
	}
}

// A link to itself, because root may read everything else.
func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	bubble(t, func(w *watched, _ chan<- fsnotify.Event) {
		aside := w.path + ".aside"
		if err := os.Rename(w.path, aside); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(w.path, w.path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(filewatch.PollInterval)
		synctest.Wait()
		w.next(-1)
		if err := os.Rename(aside, w.path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(filewatch.PollInterval)
		synctest.Wait()
		w.next(1)
	})
}

// Each different error is news: an operator who mends one line wants to hear about the next.
func TestEachNewErrorIsReported(t *testing.T) {
	bubble(t, func(w *watched, _ chan<- fsnotify.Event) {
		for _, limit := range []string{"0", "-1", "none"} {
			w.replace(strings.Replace(oneRule, "limit: 1", "limit: "+limit, 1))
			time.Sleep(filewatch.PollInterval)
			synctest.Wait()
			if len(w.reports) != 1 {
				t.Fatalf("limit %s: got %d reports, want one", limit, len(w.reports))
			}
			if r := <-w.reports; r.err == nil || !strings.Contains(r.err.Error(), "rules.yaml:2:39: limit: got ") {
				t.Errorf("limit %s: got %+v", limit, r)
			}
		}
	})
}

// A directory that goes away takes the events with it: looking now and then finds the one that comes in its place.
func TestADirectoryThatIsCreatedAgainIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc")
	path := filepath.Join(dir, "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(oneRule)
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, path: path, reports: make(chan report, 10)}
		w.watcher = NewWatcher(path, w.running(), func(s *Set, err error) { w.reports <- report{s, err} })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { filewatch.Loop(ctx, w.watcher.reload, nil, nil, w.watcher.look) })
		synctest.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(filewatch.PollInterval)
		w.next(-1)
		write(twoRules)
		time.Sleep(filewatch.PollInterval)
		w.next(2)
		cancel()
		wg.Wait()
	})
}

// A watcher whose directory is missing at the start, or whose system has no events left, still sees the file.
func TestWatcherStartsWithoutItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path := filepath.Join(dir, "rules.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan report, 10)
	w := NewWatcher(path, 0, func(s *Set, err error) { reports <- report{s, err} })
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("got %v from Run, want nil", err)
		}
	})
	defer wg.Wait()
	defer cancel()
	if r := <-reports; !errors.Is(r.err, os.ErrNotExist) {
		t.Errorf("got %+v, want the file missing", r)
	}
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, []byte(twoRules), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.Reload()
	if r := <-reports; r.err != nil || len(r.set.Rules) != 2 {
		t.Errorf("got %+v, want two rules", r)
	}
}

// Events that end, or that were lost, are no reason to spin or to look away.
func TestEventsThatEndOrAreLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, path: path, reports: make(chan report, 10)}
		w.write(oneRule)
		w.watcher = NewWatcher(path, w.running(), func(s *Set, err error) { w.reports <- report{s, err} })
		ctx, cancel := context.WithCancel(t.Context())
		events, errs := make(chan fsnotify.Event), make(chan error)
		var wg sync.WaitGroup
		wg.Go(func() { filewatch.Loop(ctx, w.watcher.reload, events, errs, w.watcher.look) })
		synctest.Wait() // it has looked at the file, which is not to be half written when it does
		w.write(twoRules)
		errs <- fsnotify.ErrEventOverflow
		synctest.Wait()
		w.next(2)
		close(events)
		close(errs)
		start := time.Now()
		synctest.Wait() // never returns while the loop spins
		w.write(oneRule)
		w.next(1)
		if took := time.Since(start); took > filewatch.PollInterval {
			t.Errorf("got the change after %v, want it within %v", took, filewatch.PollInterval)
		}
		cancel()
		wg.Wait()
	})
}

// SIGHUP by a nervous operator: nothing blocks, and asking many times at once is answered at least once, not each time.
func TestReloadsThatPileUpAreOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		n := 0
		slow := func(*Set, error) { n++; time.Sleep(time.Second) }
		if err := os.WriteFile(path, []byte(oneRule), 0o600); err != nil {
			t.Fatal(err)
		}
		w := NewWatcher(path, 0, slow)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { filewatch.Loop(ctx, w.reload, nil, nil, w.look) })
		synctest.Wait() // in the first report
		for range 1000 {
			wg.Go(w.Reload)
		}
		synctest.Wait()
		time.Sleep(5 * time.Second)
		cancel()
		wg.Wait()
		if n != 2 {
			t.Errorf("got %d reports of 1000 reloads during the first, want one more", n)
		}
	})
}

// The file is exchanged 200 times while it is watched: what is reported last is what it says at the end, and every
// report is one whole version.
func TestNoVersionIsHalfRead(t *testing.T) {
	t.Parallel()
	w := watch(t)
	version := func(n int) string {
		return fmt.Sprintf("version: 1\nrules: [{name: a, callers: ip, limit: %d, window: 1m}]\n# %s\n", n, strings.Repeat("x", 64<<10))
	}
	const last = 200
	for n := 2; n <= last; n++ {
		w.replace(version(n))
		if n%20 == 0 {
			w.watcher.Reload()
		}
	}
	for at := int64(1); at < last; {
		select {
		case r := <-w.reports:
			if r.err != nil || len(r.set.Rules) != 1 || r.set.Rules[0].Limit < at {
				t.Fatalf("got %v after limit %d, want a whole and later version", r.err, at)
			}
			at = r.set.Rules[0].Limit
		case <-time.After(20 * time.Second):
			t.Fatalf("got limit %d and no more, want %d", at, last)
		}
	}
}

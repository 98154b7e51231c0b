package rules

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/509da70d/floodgate/analyzer/filewatch"
)

const (
	oneRule  = "version: 1\nrules: [{name: a, callers: ip, limit: 1, window: 1m}]\n"
	twoRules = "version: 1\nrules: [{name: a, callers: ip, limit: 1, window: 1m}, {name: b, callers: ip, limit: 2, window: 1h}]\n"
	badRule  = "version: 1\nrules: [{name: a, callers: ip, limit: 0, window: 1m}]\n"
)

type report struct {
	set *Set
	err error
}

// watched is a file with a watcher on it.
type watched struct {
	t       *testing.T
	path    string
	watcher *Watcher
	reports chan report
}

// watch starts a watcher on a new file that holds oneRule, and stops it when the test ends.
func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, path: filepath.Join(t.TempDir(), "rules.yaml"), reports: make(chan report, 100)}
	w.write(oneRule)
	w.watcher = NewWatcher(w.path, w.running(), func(s *Set, err error) { w.reports <- report{s, err} })
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.watcher.Run(ctx); err != nil {
			t.Errorf("got %v from Run, want nil", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if n := len(w.reports); n > 0 {
			t.Errorf("got %d reports that nothing explains, the first: %+v", n, <-w.reports)
		}
	})
	w.watcher.Reload() // from here on it is watching
	w.next(1)
	return w
}

func (w *watched) running() uint64 {
	s, err := Load(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.ID()
}

func (w *watched) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// replace puts a new file in place as editors do.
func (w *watched) replace(text string) {
	w.t.Helper()
	next := w.path + "~"
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, w.path)); err != nil {
		w.t.Fatal(err)
	}
}

// next waits for a report and checks that it is a set of n rules, or an error if n is −1.
func (w *watched) next(n int) {
	w.t.Helper()
	select {
	case r := <-w.reports:
		if n < 0 && (r.err == nil || r.set != nil) {
			w.t.Fatalf("got %+v, want an error", r)
		}
		if n >= 0 && (r.err != nil || len(r.set.Rules) != n) {
			w.t.Fatalf("got %v, want %d rules", r.err, n)
		}
	case <-time.After(20 * time.Second):
		w.t.Fatal("got no report within 20 s")
	}
}

func TestWatcherSeesAFileWrittenInPlaceAndAFileRenamedOver(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.write(twoRules)
	w.next(2)
	w.replace(oneRule)
	w.next(1)
	w.replace(twoRules)
	w.next(2)
}

func TestABadFileIsReportedOnceAndTakenBackWhenMended(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.replace(badRule)
	w.next(-1)
	w.replace(badRule + "# still wrong in the same way\n")
	w.replace(oneRule) // what has been running all along
	w.next(1)
}

func TestCommentsAreNoChange(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.replace("# a comment\n" + oneRule)
	w.replace(twoRules) // the first report is about this one
	w.next(2)
}

func TestReloadReportsWhatHasNotChanged(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.watcher.Reload()
	w.next(1)
	w.replace(badRule)
	w.next(-1)
	w.watcher.Reload()
	w.next(-1)
	w.replace(oneRule)
	w.next(1)
}

func TestAMissingFileIsAnErrorUntilItIsBack(t *testing.T) {
	t.Parallel()
	w := watch(t)
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.next(-1)
	w.write(twoRules)
	w.next(2)
}

// Kubernetes mounts a ConfigMap as a link to a link to a directory, and replaces the one in the middle.
func TestAReplacedConfigMapIsSeen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	version := func(name, text string) {
		t.Helper()
		err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o700),
			os.WriteFile(filepath.Join(dir, name, "rules.yaml"), []byte(text), 0o600),
			os.Symlink(name, filepath.Join(dir, "..new")),
			os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
		if err != nil {
			t.Fatal(err)
		}
	}
	version("..1", oneRule)
	if err := os.Symlink(filepath.Join("..data", "rules.yaml"), path); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	reports := make(chan report, 10)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := NewWatcher(path, s.ID(), func(s *Set, err error) { reports <- report{s, err} }).Run(ctx); err != nil {
			t.Errorf("got %v from Watch, want nil", err)
		}
	})
	defer wg.Wait()
	defer cancel()
	version("..2", twoRules)
	w := &watched{t: t, reports: reports}
	w.next(2)
}

func TestAChangeBetweenLoadAndRunIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(twoRules), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var got *Set
	if err := NewWatcher(path, 4711, func(s *Set, _ error) { got = s; cancel() }).Run(ctx); err != nil || got == nil {
		t.Errorf("got %v and %v, want the set at once", got, err)
	}
}

// In a bubble of virtual time the file is real and the events are ours.
func bubble(t *testing.T, do func(w *watched, events chan<- fsnotify.Event)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, path: path, reports: make(chan report, 100)}
		events := make(chan fsnotify.Event)
		w.write(oneRule)
		w.watcher = NewWatcher(path, w.running(), func(s *Set, err error) { w.reports <- report{s, err} })
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { filewatch.Loop(ctx, w.watcher.reload, events, nil, w.watcher.look) })
		synctest.Wait()
		do(w, events)
		cancel()
		wg.Wait()
	})
}

func TestWithoutEventsTheFileIsReadEveryTenSeconds(t *testing.T) {
	bubble(t, func(w *watched, _ chan<- fsnotify.Event) {
		w.write(twoRules)
		time.Sleep(filewatch.PollInterval - time.Millisecond)
		synctest.Wait()
		if len(w.reports) != 0 {
			t.Errorf("got a report before the poll")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		w.next(2)
	})
}

func TestAWriteInSeveralStepsIsReadWhenItIsDone(t *testing.T) {
	bubble(t, func(w *watched, events chan<- fsnotify.Event) {
		for _, text := range []string{"", "version: 1\n", twoRules[:40], twoRules} {
			w.write(text)
			events <- fsnotify.Event{}
			time.Sleep(filewatch.SettleQuiet / 2)
		}
		time.Sleep(filewatch.SettleQuiet)
		synctest.Wait()
		w.next(2)
		if len(w.reports) != 0 {
			t.Errorf("got %d more reports, want the steps to be one change", len(w.reports))
		}
	})
}

func TestABusyDirectoryDoesNotPutOffReading(t *testing.T) {
	bubble(t, func(w *watched, events chan<- fsnotify.Event) {
		w.write(twoRules)
		start := time.Now()
		for len(w.reports) == 0 && time.Since(start) < time.Minute {
			events <- fsnotify.Event{}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(start); took > filewatch.SettleAtMost+20*time.Millisecond {
			t.Errorf("got the report after %v, want it within %v", took, filewatch.SettleAtMost)
		}
		w.next(2)
	})
}

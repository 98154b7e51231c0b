package filewatch

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
)

// looks counts the looks of a loop. Its methods are for a bubble.
type looks struct {
	mu            sync.Mutex
	all, reloaded int
}

func (l *looks) look(always bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all++
	if always {
		l.reloaded++
	}
}

func (l *looks) want(t *testing.T, all, reloaded int) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all != all || l.reloaded != reloaded {
		t.Fatalf("got %d looks, %d of them asked for, want %d and %d", l.all, l.reloaded, all, reloaded)
	}
}

// loop runs f beside a Loop in a bubble.
func loop(t *testing.T, f func(l *looks, reload chan struct{}, events chan fsnotify.Event, errs chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l, reload, events, errs := &looks{}, make(chan struct{}), make(chan fsnotify.Event), make(chan error)
		var wg sync.WaitGroup
		wg.Go(func() { Loop(ctx, reload, events, errs, l.look) })
		l.want(t, 1, 0)
		f(l, reload, events, errs)
		stop()
		wg.Wait()
	})
}

func TestALookEvery10sWithoutEvents(t *testing.T) {
	loop(t, func(l *looks, _ chan struct{}, events chan fsnotify.Event, errs chan error) {
		close(events)
		close(errs)
		time.Sleep(PollInterval + time.Second)
		l.want(t, 2, 0)
		time.Sleep(PollInterval)
		l.want(t, 3, 0)
	})
}

func TestEventsSettle(t *testing.T) {
	loop(t, func(l *looks, _ chan struct{}, events chan fsnotify.Event, _ chan error) {
		for range 3 {
			events <- fsnotify.Event{}
			time.Sleep(SettleQuiet / 2)
		}
		l.want(t, 1, 0)
		time.Sleep(SettleQuiet)
		l.want(t, 2, 0)
	})
}

// TestABusyDirectoryIsLookedAtAllTheSame, a second after its first event.
func TestABusyDirectoryIsLookedAtAllTheSame(t *testing.T) {
	loop(t, func(l *looks, _ chan struct{}, events chan fsnotify.Event, _ chan error) {
		for range 21 {
			events <- fsnotify.Event{}
			time.Sleep(SettleQuiet / 2)
		}
		l.want(t, 2, 0)
	})
}

func TestLostEventsAreALook(t *testing.T) {
	loop(t, func(l *looks, _ chan struct{}, _ chan fsnotify.Event, errs chan error) {
		errs <- errors.New("overflow")
		l.want(t, 2, 0)
	})
}

func TestReloadLooksAtOnce(t *testing.T) {
	loop(t, func(l *looks, reload chan struct{}, _ chan fsnotify.Event, _ chan error) {
		reload <- struct{}{}
		l.want(t, 2, 1)
	})
}

// TestAReplacedFileIsLookedAt, also in a directory that is named only after the first look. These are real files: a rename, and
// the swap of a link as Kubernetes swaps that of a ConfigMap.
func TestAReplacedFileIsLookedAt(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	contents := make(chan string, 100)
	dirs := []string{first}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		Watch(ctx, nil, func() []string { return dirs }, func(bool) {
			dirs = []string{first, second, filepath.Join(first, "missing")}
			a, _ := os.ReadFile(filepath.Join(first, "a"))
			b, _ := os.ReadFile(filepath.Join(second, "b"))
			contents <- string(a) + string(b)
		})
	})
	wait := func(want string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case got := <-contents:
				if got == want {
					return
				}
			case <-deadline:
				t.Fatalf("got no look at %q", want)
			}
		}
	}
	wait("")
	replace(t, filepath.Join(first, "a"), "1")
	wait("1")
	replace(t, filepath.Join(second, "b"), "2")
	wait("12")
	stop()
	wg.Wait()
}

func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

package rules

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How a Watcher waits.
const (
	settleQuiet  = 100 * time.Millisecond // after the last event, because editors write in several steps
	settleAtMost = time.Second            // after the first, however busy the directory is
	pollInterval = 10 * time.Second
)

// Watch calls onChange with each new version of the file at path until ctx ends: see Watcher. current is the ID of the
// rules that run.
func Watch(ctx context.Context, path string, current uint64, onChange func(*Set, error)) error {
	return NewWatcher(path, current, onChange).Run(ctx)
}

// Watcher notices changes of a rule file. It calls its function with a Set whose ID is not that of the last one, and with
// an error for each version that can't be read or is wrong: the running rules should then stay. After an error the next
// good version is always passed on, so that the error can be taken back.
//
// It watches the directory, because editors and Kubernetes replace files instead of writing into them, and compares what
// the file says. It also looks every 10 s by itself, for file systems that send no events. A file should be replaced by a
// rename: of one that is written slowly in place, a valid beginning could be taken for the whole.
type Watcher struct {
	path     string
	onChange func(*Set, error)
	reload   chan struct{}

	// Only Run's goroutine uses these.
	id      uint64 // of the last good version
	failure string // of the last look; empty after a good one
	content uint64 // hash of the last version, good or bad, and what came of it
	set     *Set
	err     error
}

// NewWatcher returns a watcher for the file at path. current is the ID of the rules that run; it reads nothing before
// Run. onChange is called by Run's goroutine.
func NewWatcher(path string, current uint64, onChange func(*Set, error)) *Watcher {
	return &Watcher{path: path, onChange: onChange, reload: make(chan struct{}, 1), id: current}
}

// Reload makes Run read the file now and report it even if nothing has changed: for SIGHUP. It does not block, and any
// goroutine may call it.
func (w *Watcher) Reload() {
	select {
	case w.reload <- struct{}{}:
	default: // one is waiting already
	}
}

// Run watches until ctx ends, and then returns nil. The first look is at once. Without file events, because the system
// gives none or the directory is not there yet, it goes on with looking every 10 s.
func (w *Watcher) Run(ctx context.Context) error {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		w.loop(ctx, nil, nil)
		return nil // looking by itself is slower, and enough
	}
	defer events.Close()
	if err := events.Add(filepath.Dir(w.path)); err != nil {
		w.loop(ctx, nil, nil)
		return nil // as above
	}
	w.loop(ctx, events.Events, events.Errors)
	return nil
}

func (w *Watcher) loop(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error) {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	settle := time.NewTimer(pollInterval)
	settle.Stop()
	defer settle.Stop()
	var deadline time.Time // of the events being waited out; zero if there are none
	for w.look(false); ; {
		select {
		case <-ctx.Done():
			return
		case <-w.reload:
			w.look(true)
		case <-poll.C:
			w.look(false)
		case <-settle.C:
			deadline = time.Time{}
			w.look(false)
		case _, ok := <-events:
			if !ok {
				events = nil // looking by itself goes on
				continue
			}
			now := time.Now() //nolint:forbidigo // a loop's clock
			if deadline.IsZero() {
				deadline = now.Add(settleAtMost)
			}
			settle.Reset(min(settleQuiet, deadline.Sub(now)))
		case _, ok := <-errs: // whatever it was, events were lost
			if !ok {
				errs = nil
				continue
			}
			w.look(false)
		}
	}
}

// look reads the file and reports it if it is news, or if asked to report whatever it says.
func (w *Watcher) look(always bool) {
	set, err := w.load()
	failed := w.failure
	w.failure = ""
	switch {
	case err != nil:
		if w.failure = err.Error(); always || w.failure != failed {
			w.onChange(nil, err)
		}
	case always || failed != "" || set.ID() != w.id:
		w.id = set.ID()
		w.onChange(set, nil)
	}
}

// load reads the file, and parses it if it isn't what it was.
func (w *Watcher) load() (*Set, error) {
	// To open a named pipe would be to wait for a writer, and the loop with it.
	if info, err := os.Stat(w.path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read rules: %s: got %v, want a regular file", w.path, info.Mode().Type())
	}
	data, err := read(w.path)
	if err != nil {
		return nil, err
	}
	if content := hash(string(data)); w.set == nil && w.err == nil || content != w.content {
		w.content = content
		w.set, w.err = Parse(w.path, data)
	}
	return w.set, w.err
}

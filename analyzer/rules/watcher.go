package rules

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/filewatch"
	"github.com/509da70d/floodgate/schemas"
)

// Watcher notices changes of a rule file. It calls onChange with each Set whose ID differs from that of the last one, and
// with an error for each version that cannot be read or is wrong: the rules in use should then stay. After an error it
// always calls onChange with the next good version, so that the caller can withdraw the error.
//
// It watches the directory, because editors and Kubernetes replace files instead of writing into them, and compares the
// content of the file. It also looks every 10 s without an event, for file systems that send none. A file should be
// replaced by a rename: if it is written slowly in place, the Watcher could read a valid first part of it as the whole.
type Watcher struct {
	IDs schemas.IDs // makes the ids of callers; set it before Run

	path     string
	onChange func(*Set, error)
	reload   chan struct{}

	// Only Run's goroutine uses these.
	id      uint64 // of the last good version
	failure string // error of the last look; empty after a good one
	content uint64 // hash of the last version, good or bad, which set and err belong to
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
	default: // a reload is pending already
	}
}

// Run watches until ctx ends, and then returns nil. The first look is at once. If there are no file events, because the
// system sends none or the directory does not exist yet, it looks every 10 s.
func (w *Watcher) Run(ctx context.Context) error {
	filewatch.Watch(ctx, w.reload, func() []string { return []string{filepath.Dir(w.path)} }, w.look)
	return nil
}

// look reads the file and reports it if it has changed, or in any case if always is true.
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

// load reads the file, and parses it if its content has changed.
func (w *Watcher) load() (*Set, error) {
	// Opening a named pipe would block the loop until there is a writer.
	if info, err := os.Stat(w.path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read rules: %s: got %v, want a regular file", w.path, info.Mode().Type())
	}
	data, err := document.ReadFile(w.path)
	if err != nil {
		return nil, fmt.Errorf("open rules: %w", err)
	}
	if content := hash(string(data)); w.set == nil && w.err == nil || content != w.content {
		w.content = content
		w.set, w.err = ParseWith(w.path, data, w.IDs)
	}
	return w.set, w.err
}

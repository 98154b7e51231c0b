package filewatch

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How long to wait.
const (
	SettleQuiet  = 100 * time.Millisecond // after the last event, because editors write in several steps
	SettleAtMost = time.Second            // after the first, however busy a directory is
	PollInterval = 10 * time.Second
)

// Watch calls look until ctx ends: at once, after changes in one of the directories, every 10 s, and, with always, when reload is
// sent to. After each look it asks dirs which directories to watch. What is wrong with a directory, or with the file system's
// events, is no error: the look every 10 s goes on. One goroutine, that of the call, calls both functions.
func Watch(ctx context.Context, reload <-chan struct{}, dirs func() []string, look func(always bool)) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		Loop(ctx, reload, nil, nil, look)
		return
	}
	defer watcher.Close()
	add := func() {
		for _, dir := range dirs() {
			_ = watcher.Add(dir) // one that is watched already is no error; one that is missing is tried again
		}
	}
	add()
	Loop(ctx, reload, watcher.Events, watcher.Errors, func(always bool) {
		look(always)
		add()
	})
}

// Loop is Watch with events and errors from channels, which may be nil or be closed.
func Loop(ctx context.Context, reload <-chan struct{}, events <-chan fsnotify.Event, errs <-chan error, look func(always bool)) {
	poll := time.NewTicker(PollInterval)
	defer poll.Stop()
	settle := time.NewTimer(PollInterval)
	settle.Stop()
	defer settle.Stop()
	var deadline time.Time // when to look after the last events; zero if there were none
	for look(false); ; {
		select {
		case <-ctx.Done():
			return
		case <-reload:
			look(true)
		case <-poll.C:
			look(false)
		case <-settle.C:
			deadline = time.Time{}
			look(false)
		case _, ok := <-events:
			if !ok {
				events = nil // the look every 10 s continues
				continue
			}
			now := time.Now()
			if deadline.IsZero() {
				deadline = now.Add(SettleAtMost)
			}
			settle.Reset(min(SettleQuiet, deadline.Sub(now)))
		case _, ok := <-errs: // every error means that events were lost
			if !ok {
				errs = nil
				continue
			}
			look(false)
		}
	}
}

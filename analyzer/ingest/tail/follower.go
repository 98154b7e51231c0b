package tail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/509da70d/floodgate/schemas"
)

// How a Follower waits.
const (
	look        = 250 * time.Millisecond // between two looks without events: some file systems send none
	settle      = 5 * time.Millisecond   // after an event, because lines come in bursts
	silence     = time.Second            // without new lines, after which a rotated log counts as finished
	absentAfter = 5 * time.Second        // without a file, after which that is logged
)

// Sink takes the lines of one log, as feed.Source does.
type Sink interface {
	Head(text []byte)
	Text(ctx context.Context, text []byte, offset, next int64) error
	End(position int64)
	Acked() int64
	Close() error
}

// Follower follows, one after the other, the logs that are at Path. All fields except Once and Lost are needed.
type Follower struct {
	Path      string // absolute
	Host      string // part of the identity of a log, because other machines use the same inodes
	Positions *Positions
	Open      func(source schemas.ProducerID, name string, position int64) Sink
	Now       func() time.Time
	Logger    *slog.Logger
	Once      bool               // stop at the end of the log
	Lost      func(offset int64) // called for a log that was deleted before it was read to its end; may be nil
	wake      <-chan struct{}    // closed, or receives, when a file may have changed; nil for none
	size      int                // of the buffer, in bytes; 0 is bufferSize
}

// Run follows until ctx ends, or with Once until the end of the log that is at the path now. It returns only errors that do
// not go away with time.
func (f *Follower) Run(ctx context.Context) error {
	events, err := fsnotify.NewWatcher()
	if err == nil {
		if err = events.Add(filepath.Dir(f.Path)); err != nil {
			err = errors.Join(err, events.Close())
		}
	}
	if err != nil {
		f.Logger.Info("no file events, looking every quarter of a second", "path", f.Path, "error", err)
		return f.run(ctx)
	}
	wake := make(chan struct{}, 1)
	f.wake = wake
	var passing sync.WaitGroup
	passing.Go(func() { f.pass(events, wake) })
	defer passing.Wait()
	defer events.Close() // ends pass
	return f.run(ctx)
}

// pass turns file events into wake-ups until the events end.
func (f *Follower) pass(events *fsnotify.Watcher, wake chan<- struct{}) {
	for {
		select {
		case e, more := <-events.Events:
			if !more {
				return
			}
			if e.Name != f.Path {
				continue
			}
		case _, more := <-events.Errors: // every error means that events were lost
			if !more {
				return
			}
		}
		select {
		case wake <- struct{}{}:
		default: // a wake-up is pending already
		}
	}
}

func (f *Follower) run(ctx context.Context) error {
	for {
		if some, err := f.rotated(ctx); err != nil || ctx.Err() != nil {
			return err
		} else if some {
			continue // other logs may have been rotated while this one was read
		}
		file, id, err := f.current(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if missed, err := f.missed(); err != nil || missed {
			if err = errors.Join(err, file.Close()); err != nil {
				return err
			}
			continue
		}
		over, err := f.read(ctx, file, f.log(file, id), false)
		if err = errors.Join(err, file.Close()); err != nil || ctx.Err() != nil || f.Once && over {
			return err
		}
	}
}

// missed reports whether a log that was never read was rotated between the last look and the opening of the current one.
func (f *Follower) missed() (bool, error) {
	c, err := siblings(f.Path)
	if err != nil {
		return false, fmt.Errorf("look for rotated logs: %w", err)
	}
	defer c.close()
	return len(c.newer(f.Path, f.Positions.of(f.Path))) > 0, nil
}

// rotated reads the logs that were rotated before they were read to their end, the oldest first, and reports whether there
// were any.
func (f *Follower) rotated(ctx context.Context) (some bool, err error) {
	known := f.Positions.of(f.Path)
	candidates, err := siblings(f.Path)
	if err != nil {
		return false, fmt.Errorf("look for rotated logs: %w", err)
	}
	defer candidates.close()
	for _, l := range known {
		if l.Finished {
			continue
		}
		c := candidates.find(l)
		switch {
		case c == nil:
			f.Logger.Error("a log was deleted before it was read to its end", "path", f.Path, "position", l.Offset)
			if f.Lost != nil {
				f.Lost(l.Offset)
			}
			f.Positions.change(func() { l.Finished = true })
		case c.path != f.Path:
			if _, err := f.read(ctx, c.file, l, true); err != nil || ctx.Err() != nil {
				return true, err
			}
			some = true
		}
	}
	for _, c := range candidates.newer(f.Path, known) {
		f.Logger.Info("reading a log that was rotated meanwhile", "path", c.path)
		if _, err := f.read(ctx, c.file, f.log(c.file, c.id), true); err != nil || ctx.Err() != nil {
			return true, err
		}
		some = true
	}
	return some, nil
}

// current waits for the log at the path, and for its first line.
func (f *Follower) current(ctx context.Context) (*os.File, identity, error) {
	for began := f.Now(); ; f.wait(ctx) {
		if ctx.Err() != nil {
			return nil, identity{}, nil //nolint:nilerr // a stop is no failure
		}
		file, err := os.Open(f.Path)
		if err == nil {
			id, whole, err := identify(file)
			if err == nil && (whole || f.Once && id.FirstLen > 0) {
				return file, id, nil
			}
			if err = errors.Join(err, file.Close()); err != nil {
				return nil, id, fmt.Errorf("read log: %w", err)
			}
			if f.Once {
				return nil, id, errEmpty
			}
			continue
		}
		if f.Once || !errors.Is(err, os.ErrNotExist) {
			return nil, identity{}, fmt.Errorf("open log: %w", err)
		}
		if now := f.Now(); now.Sub(began) > absentAfter {
			f.Logger.Warn("waiting for a log", "path", f.Path)
			began = now.Add(time.Hour)
		}
	}
}

var errEmpty = errors.New("log is empty")

// wait returns when the log may have changed.
func (f *Follower) wait(ctx context.Context) {
	t := time.NewTimer(look)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-f.wake:
		t.Reset(settle)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

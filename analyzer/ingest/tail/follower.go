package tail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/509da70d/floodgate/schemas"
)

// How a Follower waits.
const (
	look      = 250 * time.Millisecond // between two looks without events: some file systems send none
	settle    = 5 * time.Millisecond   // after an event, because lines come in bursts
	silence   = time.Second            // without new lines, after which a renamed log that nobody writes to counts as finished
	scanEvery = 10 * time.Second       // between two looks at the directory: renamed logs may get lines whenever
	lostAfter = 2 * time.Second        // without a file that continues a log, because files are renamed one after the other
	tellAfter = 10 * time.Second       // without a line, after which that is logged
	saveAgain = time.Second            // after the positions could not be saved
)

// rounds is how often a turn looks for further logs after it has read what it found.
const rounds = 4

// DefaultKeepOpen is how long a renamed log is watched at least, if nobody tells whether it is open for writing.
const DefaultKeepOpen = 10 * time.Minute

// Sink takes the lines of one log, as feed.Source does.
type Sink interface {
	Head(text []byte)
	Text(ctx context.Context, text []byte, offset, next int64) error
	End(position int64)
	Acked() int64
	Close() error
}

// Follower follows all logs that are or were at Path. All fields down to Logger are needed.
type Follower struct {
	Path      string // absolute
	Positions *Positions
	Open      func(source schemas.ProducerID, name string, position int64) Sink
	Now       func() time.Time
	Logger    *slog.Logger
	Once      bool               // stop at the end of the log
	FromEnd   bool               // what is in the log at the first look of all does not count
	KeepOpen  time.Duration      // how long a renamed log is watched after its last line; 0 is DefaultKeepOpen
	Lost      func(offset int64) // called for a log of which lines may be missing; may be nil
	Undecided func()             // called for a log that does not count, because it has no more than what another one begins with; may be nil
	wake      <-chan struct{}    // closed, or receives, when a file may have changed; nil for none
	renamed   atomic.Bool        // the names in the directory have changed
	disk      disk               // nil is that of the operating system
	size      int                // of the room, in bytes; 0 is bufferSize

	buf      []byte                 // window bytes, and the room for what is read
	readers  []*reader              // of the logs that may get lines, the oldest first
	settled  unchanging             // at the last look
	missing  map[*logFile]time.Time // since when a log that is not read to its end has no file
	partials map[string]partial     // by path
	newest   time.Time              // by the file system's clock: the last change to a log at the path, when it was last seen there
	confirm  bool                   // another look must find no log that was at the path before: the one there is new, or names changed during the last look
	waiting  bool                   // a file is not whole yet
	scanned  time.Time              // when the directory was last looked at
	began    time.Time
	fed      bool // a line has come
	told     bool // that no line has come
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
			switch {
			case e.Name == f.Path:
			case e.Has(fsnotify.Create|fsnotify.Rename|fsnotify.Remove) && isRotated(filepath.Base(f.Path), filepath.Base(e.Name)):
			default:
				continue
			}
			if !e.Has(fsnotify.Write) {
				f.renamed.Store(true)
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

// run follows without file events.
func (f *Follower) run(ctx context.Context) error {
	f.start()
	for ctx.Err() == nil {
		if err := f.turn(ctx); err != nil {
			return errors.Join(err, f.close(ctx))
		}
		if f.Once {
			break
		}
		f.wait(ctx)
	}
	return f.close(ctx)
}

// start makes the follower ready for turns.
func (f *Follower) start() {
	f.disk = onDisk(f.disk)
	f.buf = make([]byte, window+cmp.Or(f.size, bufferSize))
	f.settled, f.missing = make(unchanging), make(map[*logFile]time.Time)
	f.partials = make(map[string]partial)
	for _, l := range f.Positions.of(f.Path) {
		f.newest = later(f.newest, l.Modified)
	}
	f.began = f.Now()
	f.Positions.follow(f.Path)
}

// room is where what is read next goes.
func (f *Follower) room() []byte { return f.buf[window:] }

// turn reads what has been added to all logs since the last turn, finds new ones, and gives up those that are finished.
func (f *Follower) turn(ctx context.Context) error {
	for range rounds {
		if err := f.pollAll(ctx); err != nil {
			return err
		}
		if opened, err := f.search(); err != nil {
			return err
		} else if !opened || ctx.Err() != nil {
			break
		}
	}
	if f.Once {
		return f.finishOnce(ctx)
	}
	f.finish(ctx)
	f.tell()
	return nil
}

// pollAll feeds what was added to the logs. A file that cannot be read any more is given up, and searched for again.
func (f *Follower) pollAll(ctx context.Context) error {
	for _, r := range f.readers {
		if r.file == nil || r.ending {
			continue
		}
		switch intact, err := r.poll(ctx); {
		case err != nil && f.Once:
			return err
		case err != nil:
			f.Logger.Error("cannot read a log, looking for it again", "path", r.name, "error", err)
			r.lose()
		case !intact:
			f.Logger.Warn("log was truncated or written anew, looking for a copy of it", "path", r.name, "position", r.offset)
			r.lose()
		}
	}
	return nil
}

// finish gives up the renamed logs that nobody writes to any more, or that nothing was added to for so long. All that was read of a
// log must be in Kafka before it counts as finished.
func (f *Follower) finish(ctx context.Context) {
	now := f.Now()
	watched := 0
	for _, r := range slices.Backward(f.readers) {
		quiet := now.Sub(r.since)
		switch {
		case r.ending || r.file == nil || !r.rotated:
		case r.twin != nil && r.twin.file != nil && r.twin.rotated: // its twin is finished first
		case r.packed, quiet >= cmp.Or(f.KeepOpen, DefaultKeepOpen), quiet >= silence && (watched >= keepLogs || f.disk.idle(r.file)):
			f.finishLog(ctx, r)
		default:
			watched++
		}
	}
	f.readers = slices.DeleteFunc(f.readers, func(r *reader) bool { return r.ending && r.acked() })
}

// finishLog reads a log to its end.
func (f *Follower) finishLog(ctx context.Context, r *reader) {
	intact, err := r.poll(ctx) // what was written before its last writer closed it
	if err == nil && intact && !r.ending {
		err = r.last(ctx)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.Logger.Error("cannot read the end of a log, looking for it again", "path", r.name, "error", err)
		r.lose()
	case !intact:
		r.lose()
	default:
		r.end()
	}
}

// finishOnce ends the reading of all logs, with an error if the log at the path cannot be read.
func (f *Follower) finishOnce(ctx context.Context) error {
	at := f.current()
	if at == nil {
		_, err := f.disk.open(f.Path)
		return fmt.Errorf("open log: %w", cmp.Or(err, os.ErrNotExist))
	}
	for _, r := range f.readers {
		if r.file == nil || r.ending {
			continue
		}
		if err := r.last(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if at.log == nil && ctx.Err() == nil {
		return errEmpty
	}
	return nil
}

var errEmpty = errors.New("log is empty")

// current returns the reader of the log that is at the path, or nil.
func (f *Follower) current() *reader {
	for _, r := range f.readers {
		if r.file != nil && !r.ending && !r.rotated {
			return r
		}
	}
	return nil
}

// close ends the sinks, as far as Kafka takes what they have.
func (f *Follower) close(ctx context.Context) error {
	var closing sync.WaitGroup
	errs := make([]error, len(f.readers))
	for i, r := range f.readers {
		r.letGo()
		if r.sink != nil {
			closing.Go(func() { errs[i] = r.sink.Close() })
		}
	}
	closing.Wait()
	for _, r := range f.readers {
		if r.log != nil {
			f.Positions.change(func() {
				r.log.settle()
				r.log.sink, r.log.Finished = nil, r.log.Finished || f.Once && r.rotated && len(r.log.pending) == 0
			})
		}
	}
	f.readers = nil
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil && f.Once {
		return err
	}
	return nil
}

// save saves the positions, in as many tries as that takes. Its error is ctx's.
func (f *Follower) save(ctx context.Context) error {
	for ctx.Err() == nil {
		err := f.Positions.Save()
		if err == nil {
			return nil
		}
		f.Logger.Error("cannot save the positions: a new log waits for that", "path", f.Path, "error", err)
		t := time.NewTimer(saveAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return ctx.Err()
}

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

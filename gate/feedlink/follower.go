package feedlink

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/feed"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	pause         = time.Second     // between two connections, unless the one before lasted longer
	silence       = 5 * time.Second // a connection without a line for this time is given up: heartbeats come each second
	maxBatch      = 1024            // decisions that are applied together
	maxPartitions = 10_000          // of a feed
)

// Why a feed ends.
var (
	errSilent = errors.New("no line came for 5 s")
	errNoFeed = errors.New("this is no feed of version 1")
	errLong   = errors.New("line is too long")
)

// follower reads a feed for a Handler. One goroutine uses it.
type follower struct {
	*source
	handler kafkalink.Handler
	note    func(error)

	cursor     string // behind what was applied; empty: the next feed starts anew
	partitions int    // that the Handler knows of; 0: none yet
	repeating  bool   // the Set was told that everything in force comes again
	current    bool   // everything in force has come
	caughtUp   bool   // the Handler knows that
	batch      []schemas.Decision
}

// Follow implements kafkalink.Source.
func (s *source) Follow(ctx context.Context, h kafkalink.Handler, note func(error)) {
	f := &follower{source: s, handler: h, note: note}
	for ctx.Err() == nil {
		began := time.Now()
		err := f.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		note(err)
		wait := kafkaio.Backoff{Min: pause, Max: pause} // a part of it is random: a thousand servers follow one feed
		if refused, ok := errors.AsType[*answerError](err); ok && refused.retryAfter > pause {
			wait = kafkaio.Backoff{Min: refused.retryAfter, Max: refused.retryAfter}
		}
		if time.Since(began) < pause {
			_ = wait.Pause(ctx) // the loop looks at ctx
		}
	}
}

// connect reads the feed until it ends, and returns why.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer silent.Stop()
	var since string
	if f.cursor != "" {
		since = "&since=" + url.QueryEscape(f.cursor)
	}
	r, err := f.ask(ctx, http.MethodGet, &f.closed, since, http.NoBody)
	if err == nil {
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return answerOf(r)
		}
		err = f.read(r.Body, func() { silent.Reset(silence) })
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// read reads lines until the feed ends, and returns why. It calls heard for each of them.
func (f *follower) read(body io.Reader, heard func()) error {
	defer f.apply()
	lines := lineReader{Reader: bufio.NewReaderSize(body, 64<<10)}
	for first := true; ; first = false {
		if !lines.waiting() {
			f.apply()
		}
		text, err := lines.next()
		if err != nil {
			return err
		}
		heard()
		l, err := feed.Parse(text)
		switch {
		case first && (err != nil || l.Type != feed.Start || l.Version != feed.Version):
			return fmt.Errorf("%w: got %.80q", errNoFeed, text)
		case err != nil:
			f.handler.Refused(0, "malformed", 1)
			continue
		case first:
			f.note(nil)
		}
		f.take(&l, time.Now())
	}
}

// take takes a line over.
func (f *follower) take(l *feed.Line, now time.Time) {
	switch l.Type {
	case feed.Start:
		if !l.Resumed {
			f.set.RepeatBegins()
			f.cursor, f.repeating, f.current, f.caughtUp = "", true, false, false
		}
	case feed.Decision:
		d := l.Decision
		d.Until = min(d.Until, now.Add(schemas.MaxClosure).UnixNano())
		if f.batch = append(f.batch, d); len(f.batch) == maxBatch {
			f.apply()
		}
	case feed.Current:
		f.apply()
		if f.repeating {
			f.set.RepeatEnds(now)
		}
		f.repeating, f.current = false, true
		f.catchUp()
	case feed.Heartbeat:
		f.apply()
		f.heartbeat(l, now)
	}
	if l.Cursor != "" {
		f.cursor = l.Cursor
	}
}

// apply gives the decisions that were collected to the Handler.
func (f *follower) apply() {
	if len(f.batch) == 0 {
		return
	}
	f.handler.Decisions(0, f.batch, time.Now())
	clear(f.batch)
	f.batch = f.batch[:0]
}

// heartbeat takes a heartbeat over. An owner was heard as long ago as the feed says, so a partition is stale when it is stale there.
func (f *follower) heartbeat(l *feed.Line, now time.Time) {
	if n := len(l.Partitions); n > 0 && n != f.partitions {
		f.partitions, f.caughtUp = n, false
		f.handler.Partitions(n)
		f.catchUp()
	}
	for i, p := range l.Partitions {
		if p.Epoch > 0 {
			f.handler.Heartbeat(&schemas.Heartbeat{
				Partition: int32(i), Epoch: p.Epoch, Seq: p.Seq, Watermark: p.Watermark, Lag: int64(p.Lag),
			}, now.Add(-max(p.Age, 0)))
		}
	}
}

// catchUp tells the Handler that everything in force has come.
func (f *follower) catchUp() {
	if !f.current || f.caughtUp || f.partitions == 0 {
		return
	}
	f.caughtUp = true
	for p := range f.partitions {
		f.handler.CaughtUp(p)
	}
}

// lineReader reads lines with a bound.
type lineReader struct {
	*bufio.Reader
	long []byte // a line that is longer than the Reader's buffer
}

// waiting reports whether next returns at once.
func (r *lineReader) waiting() bool {
	b, _ := r.Peek(r.Buffered()) // it is there
	return bytes.IndexByte(b, '\n') >= 0
}

// next returns the next line. It is valid until the next call.
func (r *lineReader) next() ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	r.long = append(r.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(r.long) > feed.MaxLine(maxPartitions) {
			return nil, errLong
		}
		line, err = r.ReadSlice('\n')
		r.long = append(r.long, line...)
	}
	return r.long, err
}

package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// bufferSize is how much is read at a time. It holds at least one line of ingest.MaxLine bytes.
const bufferSize = 1 << 20

// reader reads one log, line by line.
type reader struct {
	follower *Follower
	file     *os.File
	log      *Log
	sink     Sink
	rotated  bool // the path has another file
	buf      []byte
	have     int   // bytes of buf that were read and are not yet fed
	offset   int64 // of buf in the file
	skipping bool  // inside of a line that was too long: its start is fed
}

// read feeds a log from its position until it is over: it was rotated away and is silent, or it shrank, or Once. It
// reports whether it is, which it is not if ctx ended.
func (f *Follower) read(ctx context.Context, file *os.File, l *Log, rotated bool) (over bool, err error) {
	r := &reader{follower: f, file: file, log: l, rotated: rotated, offset: l.Offset, buf: make([]byte, max(f.size, bufferSize))}
	if f.size > 0 {
		r.buf = r.buf[:f.size]
	}
	sink := f.Open(schemas.ProducerID(l.Source), "file:"+f.Path, l.Offset)
	r.sink = sink
	if err := r.prime(); err != nil {
		return false, errors.Join(err, sink.Close())
	}
	f.Positions.change(func() { l.sink = sink })
	if err := f.Positions.Save(); err != nil {
		f.Logger.Error("cannot save positions", "error", err)
	}
	f.Logger.Info("reading", "path", file.Name(), "position", r.offset)
	over, err = r.run(ctx)
	// A log that is over is done with only when all of it is in Kafka.
	flushed := sink.Close()
	for over && flushed != nil && ctx.Err() == nil {
		flushed = sink.Close()
	}
	f.Positions.change(func() {
		l.Offset, l.sink = max(l.Offset, sink.Acked()), nil
		l.Finished = over && flushed == nil && !f.Once
	})
	return over, err
}

// prime shows the sink how the log begins, if it is not read from there.
func (r *reader) prime() error {
	head := make([]byte, min(r.offset, ingest.MaxLine))
	if _, err := r.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read log: %w", err)
	}
	r.sink.Head(head[:bytes.LastIndexByte(head, '\n')+1])
	return nil
}

func (r *reader) run(ctx context.Context) (over bool, err error) {
	var quiet time.Time // since when there was nothing more; zero while there is
	for ctx.Err() == nil {
		if !quiet.IsZero() && !r.log.begins(r.file) {
			r.follower.Logger.Warn("log was written anew", "path", r.file.Name())
			return true, nil
		}
		n, err := r.file.ReadAt(r.buf[r.have:], r.offset+int64(r.have))
		r.have += n
		if n > 0 {
			quiet = time.Time{}
			if r.feed(ctx) != nil {
				return false, nil //nolint:nilerr // ctx has ended
			}
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("read log: %w", err)
		}
		now := r.follower.Now()
		if quiet.IsZero() {
			quiet = now
		}
		shrunk, err := r.look()
		switch {
		case err != nil:
			return false, err
		case shrunk:
			r.follower.Logger.Warn("log shrank", "path", r.file.Name(), "position", r.offset)
			return true, nil
		case r.follower.Once, r.rotated && now.Sub(quiet) >= silence:
			return r.last(ctx) == nil, nil
		}
		r.follower.wait(ctx)
	}
	return false, nil
}

// feed feeds the whole lines that were read, and keeps the rest.
func (r *reader) feed(ctx context.Context) error {
	if r.skipping {
		i := bytes.IndexByte(r.buf[:r.have], '\n')
		r.skipping = i < 0
		if r.skipping {
			i = r.have - 1
		}
		r.drop(i + 1)
	}
	end := bytes.LastIndexByte(r.buf[:r.have], '\n') + 1
	if end > 0 {
		if err := r.sink.Text(ctx, r.buf[:end], r.offset, r.offset+int64(end)); err != nil {
			return err
		}
		r.drop(end)
	}
	if r.have == len(r.buf) { // all of it is one line: its start counts, and the rest is passed over
		if err := r.sink.Text(ctx, r.buf[:min(r.have, ingest.MaxLine+1)], r.offset, r.offset); err != nil {
			return err
		}
		r.skipping = true
		r.drop(r.have)
	}
	return nil
}

// drop takes n bytes off the front of the buffer.
func (r *reader) drop(n int) {
	r.have = copy(r.buf, r.buf[n:r.have])
	r.offset += int64(n)
}

// look notes how long the log is, and whether the path has another file by now. Shrunk is whether some of what was read is
// not there any more.
func (r *reader) look() (shrunk bool, err error) {
	info, err := r.file.Stat()
	if err != nil {
		return false, fmt.Errorf("look at log: %w", err)
	}
	r.sink.End(info.Size())
	r.follower.Positions.change(func() { r.log.Modified = info.ModTime() })
	if info.Size() < r.offset+int64(r.have) {
		return true, nil
	}
	if !r.rotated {
		now, err := os.Stat(r.follower.Path)
		r.rotated = err == nil && !os.SameFile(info, now)
	}
	return false, nil
}

// last feeds the last line of a log that is over, if it has no line end.
func (r *reader) last(ctx context.Context) error {
	if r.have == 0 || r.skipping {
		return nil
	}
	err := r.sink.Text(ctx, r.buf[:r.have], r.offset, r.offset+int64(r.have))
	r.drop(r.have)
	return err
}

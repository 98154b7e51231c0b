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
	"github.com/509da70d/floodgate/analyzer/ingest/unpack"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
)

// bufferSize is how many bytes are read at a time. A line of ingest.MaxLine bytes fits into it.
const bufferSize = 1 << 20

// reader reads one log, line by line.
type reader struct {
	follower *Follower
	file     *os.File
	log      *logFile
	sink     Sink
	rotated  bool // there is another file at the path
	buf      []byte
	have     int   // bytes of buf that were read and not yet fed
	offset   int64 // of buf in the file
	skipping bool  // inside of a line that was too long: its start is fed
}

// read feeds a log from its position until the log is finished: it was rotated and gets no new lines, or it shrank, or its
// end was reached with Once. It returns false if ctx ended before.
func (f *Follower) read(ctx context.Context, file *os.File, l *logFile, rotated bool) (over bool, err error) {
	r := &reader{follower: f, file: file, log: l, rotated: rotated, offset: l.Offset, buf: make([]byte, max(f.size, bufferSize))}
	if f.size > 0 {
		r.buf = r.buf[:f.size]
	}
	if err := f.checkPlain(file); err != nil {
		return false, err
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
	// A finished log can be forgotten only when all its lines are in Kafka.
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

// ErrCompressed says that a file is compressed: the positions in it are no positions of lines. Test with errors.Is.
var ErrCompressed = errors.New("is compressed")

// checkPlain returns ErrCompressed with Once, and logs it otherwise: a client may have chosen how the log of a server starts, and must
// not be able to stop the reading.
func (f *Follower) checkPlain(file *os.File) error {
	start := make([]byte, unpack.MaxMagic)
	n, err := file.ReadAt(start, 0)
	name := unpack.Name(start[:n])
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("read log: %w", err)
	case name == "":
		return nil
	case f.Once:
		return fmt.Errorf("%s %w by %s: want the plain log; unpack it first, or read it with floodgate replay", printable.Of(file.Name()), ErrCompressed, name)
	}
	f.Logger.Error("log looks compressed, reading it as plain text", "path", file.Name(), "compression", name, "want", "the log as its server writes it")
	return nil
}

// prime shows the sink how the log begins, if it is not read from there, and the line before the first one that is read.
func (r *reader) prime() error {
	head := make([]byte, min(r.offset, ingest.MaxLine))
	if _, err := r.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read log: %w", err)
	}
	r.sink.Head(head[:bytes.LastIndexByte(head, '\n')+1])
	if r.offset == 0 {
		return nil
	}
	before := head // no longer needed
	if _, err := r.file.ReadAt(before, r.offset-int64(len(before))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read log: %w", err)
	}
	before = bytes.TrimSuffix(before, []byte("\n"))
	r.sink.Head(before[bytes.LastIndexByte(before, '\n')+1:])
	return nil
}

func (r *reader) run(ctx context.Context) (over bool, err error) {
	var quiet time.Time // since when the log has had no new lines; zero while it has
	for ctx.Err() == nil {
		if !quiet.IsZero() && !r.log.begins(r.file) {
			r.follower.Logger.Warn("log was rewritten from the start", "path", r.file.Name())
			return true, nil
		}
		n, err := r.file.ReadAt(r.buf[r.have:], r.offset+int64(r.have))
		r.have += n
		if n > 0 {
			quiet = time.Time{}
			if r.feed(ctx) != nil {
				return false, nil //nolint:nilerr // ctx has ended, and that is no failure
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

// feed passes the whole lines that were read to the sink, and keeps the rest.
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
	if r.have == len(r.buf) { // one line fills the buffer: its start is fed, and the rest is skipped
		if err := r.sink.Text(ctx, r.buf[:min(r.have, ingest.MaxLine+1)], r.offset, r.offset); err != nil {
			return err
		}
		r.skipping = true
		r.drop(r.have)
	}
	return nil
}

// drop removes n bytes from the front of the buffer.
func (r *reader) drop(n int) {
	r.have = copy(r.buf, r.buf[n:r.have])
	r.offset += int64(n)
}

// look updates the size of the log, and whether there is another file at the path by now. shrunk says whether the log is
// shorter than the part that was read.
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

// last feeds the last line of a finished log, if it has no line end.
func (r *reader) last(ctx context.Context) error {
	if r.have == 0 || r.skipping {
		return nil
	}
	err := r.sink.Text(ctx, r.buf[:r.have], r.offset, r.offset+int64(r.have))
	r.drop(r.have)
	return err
}

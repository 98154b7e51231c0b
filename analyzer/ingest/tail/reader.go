package tail

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
	f      *Follower
	file   file        // nil when the file has other content by now, or the log is finished
	id     os.FileInfo // when it was opened: which file it is
	info   os.FileInfo // when all of it had been read; nil before
	name   string      // where the file was last seen
	named  bool        // the last scan found the file under some name
	packed bool        // the file is compressed

	log      *logFile // nil until there is a line
	base     marks    // of a log that is nil
	saved    int64    // bytes from the start by which the log is known on disk
	sink     Sink     // nil while log is
	offset   int64    // of what is read next
	before   []byte   // up to window bytes before offset
	skipping bool     // inside of a line that was too long: its start is fed
	rotated  bool     // it is not at the path

	// twin reads a file that had the same content when this reader was made: another log, or the same one under another device number. As long
	// as the content is the same, only the twin's lines count.
	twin *reader

	since  time.Time // when the log was found, or last had new lines, or was renamed
	lost   time.Time // when its file was found to have other content; zero while it has not
	found  bool      // reading begins in the midst of a file that was found
	ending bool      // nothing more is read: the reader waits until all is in Kafka
}

// content returns the file as it is now.
func (r *reader) content() (content, error) {
	info, err := r.file.Stat()
	if err != nil {
		return content{}, fmt.Errorf("look at log: %w", err)
	}
	return content{r.file, info.Size()}, nil
}

// open opens the sink of a known log. It shows the sink how the log begins, if it is not read from there, and the line before the first
// one that is read.
func (r *reader) open() error {
	sink := r.f.Open(schemas.ProducerID(r.log.Source), "file:"+r.f.Path, r.offset)
	head := make([]byte, min(r.offset, ingest.MaxLine))
	if _, err := r.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("read log: %w", err), sink.Close())
	}
	sink.Head(head[:bytes.LastIndexByte(head, '\n')+1])
	if r.offset > 0 {
		last := head // no longer needed
		if _, err := r.file.ReadAt(last, r.offset-int64(len(last))); err != nil && !errors.Is(err, io.EOF) {
			return errors.Join(fmt.Errorf("read log: %w", err), sink.Close())
		}
		last = bytes.TrimSuffix(last, []byte("\n"))
		sink.Head(last[bytes.LastIndexByte(last, '\n')+1:])
	}
	r.sink, r.saved = sink, r.log.Read.End
	r.f.Positions.change(func() { r.log.sink, r.log.pending, r.log.Finished = sink, nil, false })
	r.f.Logger.Info("reading", "path", r.name, "position", r.offset, "source", fmt.Sprintf("%x", r.log.Source[:2]))
	return nil
}

// seek makes the reader begin at offset. The file must be there.
func (r *reader) seek(offset int64) error {
	before := make([]byte, min(offset, window))
	if n, err := r.file.ReadAt(before, offset-int64(len(before))); n < len(before) {
		return fmt.Errorf("read log: %w", err)
	}
	r.offset, r.before = offset, before
	return nil
}

// poll feeds what was added to the file. It reports whether the file still begins with what was read from it. If it does not, the reader
// has no file any more.
func (r *reader) poll(ctx context.Context) (intact bool, err error) {
	for ctx.Err() == nil {
		info, err := r.file.Stat()
		if err != nil {
			return true, fmt.Errorf("look at log: %w", err)
		}
		if r.info != nil && info.Size() == r.info.Size() && info.ModTime().Equal(r.info.ModTime()) {
			return true, nil
		}
		if equal, err := r.followTwin(info.Size()); err != nil || equal {
			return true, err
		}
		room := r.f.room()
		n, err := r.file.ReadAt(room, r.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return true, fmt.Errorf("read log: %w", err)
		}
		// Now, and not before: a file that is truncated and written anew never has its old content again.
		if intact, err := r.intact(); err != nil || !intact {
			return intact, err
		}
		began := r.offset
		if err := r.feed(ctx, n); ctx.Err() != nil {
			return true, nil //nolint:nilerr // a stop is no failure
		} else if err != nil {
			return true, err
		}
		if r.sink != nil {
			r.sink.End(info.Size())
		}
		r.changed(info.ModTime())
		if r.offset == began {
			r.info = info
			return true, nil
		}
		r.since = r.f.Now()
	}
	return true, nil
}

// changed notes when the file of a log was changed last.
func (r *reader) changed(at time.Time) {
	if r.log != nil {
		r.f.Positions.change(func() { r.log.Changed = at })
	}
}

// intact reports whether the file still has what was read from it: up to window bytes before the place of reading. Where reading begins in a
// file that was found, or repeats what was read before, it looks at all that is known of the log: the file may have changed since.
func (r *reader) intact() (bool, error) {
	now := make([]byte, len(r.before))
	n, err := r.file.ReadAt(now, r.offset-int64(len(now)))
	if err != nil && !errors.Is(err, io.EOF) {
		return true, fmt.Errorf("read log: %w", err)
	}
	if !bytes.Equal(now[:n], r.before) {
		return false, nil
	}
	places := r.base.places()
	if r.log != nil {
		places = r.f.Positions.places(r.log)
	}
	if n := len(places); n == 0 || !r.found && places[n-1].End <= r.offset {
		return true, nil
	}
	has, err := r.content()
	if err != nil {
		return true, err
	}
	agreed, err := has.agreement(places)
	intact := agreed >= 0 && (r.log == nil || has.size >= r.id.Size()) // a shorter file may have no more than the header
	r.found = r.found && (err != nil || !intact)
	return intact, err
}

// unchanged returns an error if the file has not what was read from it.
func (r *reader) unchanged() error {
	intact, err := r.intact()
	if err == nil && !intact {
		err = errChanged
	}
	return err
}

// feed passes the whole lines among n bytes of the room to the sink.
func (r *reader) feed(ctx context.Context, n int) error {
	text := r.f.room()[:n]
	if r.skipping {
		i := bytes.IndexByte(text, '\n')
		r.skipping = i < 0
		if r.skipping {
			i = n - 1
		}
		r.note(i + 1)
		r.advance(i + 1)
		return nil
	}
	if end := bytes.LastIndexByte(text, '\n') + 1; end > 0 {
		if r.held(end) {
			return nil
		}
		return r.send(ctx, text[:end], end)
	}
	if n == len(text) && n == len(r.f.room()) { // one line fills the room: its start is fed, and the rest is skipped
		if err := r.send(ctx, text[:min(n, ingest.MaxLine+1)], 0); err != nil {
			return err
		}
		r.skipping = true
		r.note(n)
		r.advance(n)
	}
	return nil
}

// send gives text to the sink. Everything before n bytes of the room is read then. What follows from the text for the identity of the log
// is noted first. It is also saved first until there is enough of it: after a crash the log is found again, and has the same source.
func (r *reader) send(ctx context.Context, text []byte, n int) error {
	first := r.log == nil
	if first {
		if err := r.checkPlain(text); err != nil {
			return err
		}
		r.begin(n)
	}
	next := r.note(n)
	if first {
		r.f.Positions.add(r.log)
	}
	if r.saved < enough {
		if err := r.f.save(ctx); err != nil {
			return err
		}
		r.saved = next.End
	}
	if r.sink == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	r.f.Positions.change(func() { r.log.pending = append(r.log.pending, next) })
	err := r.sink.Text(ctx, text, r.offset, next.End)
	r.f.fed = true
	r.advance(n)
	return err
}

// checkPlain returns ErrCompressed with Once, and logs it otherwise: a client may have chosen how the log of a server starts, and must not be
// able to stop the reading.
func (r *reader) checkPlain(start []byte) error {
	name := unpack.Name(start)
	switch {
	case name == "" || r.offset > 0 || r.packed:
		return nil
	case r.f.Once:
		return fmt.Errorf("%s %w by %s: want the plain log; unpack it first, or read it with floodgate replay", printable.Of(r.name), ErrCompressed, name)
	}
	r.f.Logger.Error("log looks compressed, reading it as plain text", "path", r.name, "compression", name, "want", "the log as its server writes it")
	return nil
}

// held reports whether the first n bytes of a new log are no more than what a known log begins with: a header, or it is a copy. Such a log is
// not read yet, because nothing would tell it from the other one after a restart. If it has all of the known log and more, it is that log if
// that has no file: the next look decides. Otherwise it is read from there on, as soon as the reader of the known log has not the same.
func (r *reader) held(n int) bool {
	if r.log != nil || r.offset > 0 || r.f.Once {
		return false
	}
	text := content{bytes.NewReader(r.f.room()[:n]), int64(n)}
	all, err := r.content()
	if err != nil {
		return true
	}
	start := text
	if all.size > int64(len(r.f.room())) { // what is in the room is not all that it has in common with another log
		text = all
	}
	for _, l := range r.f.Positions.of(r.f.Path) {
		agreed, err := text.agreement(r.f.Positions.places(l))
		other := r.f.readerOf(l)
		switch {
		case err != nil, agreed >= 0 && text.size <= l.Read.End:
			return true
		case agreed <= 0:
		case !l.Finished && (other == nil || other.file == nil || other.unchanged() != nil):
			r.lose()
			return true
		case agreed >= l.Own:
			if err := r.fork(l, l.Read.End); err != nil { // it has changed since: the next poll looks again
				r.offset, r.before, r.base = 0, nil, nil
				return true
			}
			r.found, r.twin = true, other
			return true
		case other != nil && other.has(text):
			return true
		}
	}
	equal, err := start.begins(all) // or it was written anew meanwhile, and another log was looked at
	return err != nil || !equal
}

// has reports whether the file begins with a text. The caller has compared what was read of both.
func (r *reader) has(text content) bool {
	all, err := r.content()
	if err != nil || all.size < text.size {
		return false
	}
	equal, err := all.begins(text)
	return err == nil && equal
}

// begin makes the log of a reader that has its first lines.
func (r *reader) begin(n int) {
	r.log = &logFile{Path: filePath(r.f.Path), Name: filePath(r.f.realName(r.name)), Marks: r.base, Modified: r.f.newest}
	_, _ = rand.Read(r.log.Source[:]) // never fails
	r.f.confirm = r.f.confirm || !r.rotated
	r.log.Own = enough
	if r.offset > 0 { // what it has besides the log that it begins with
		r.log.Own = min(enough, r.offset+min(int64(n), step))
		r.log.Acked = place{r.offset, sumOf(r.before)}
	} else if len(r.f.Positions.of(r.f.Path)) > 0 {
		r.log.Own = min(enough, int64(n))
	}
}

// note notes what the log has before the place that is n bytes further, which it returns, and before each mark on the way.
func (r *reader) note(n int) place {
	next := place{r.offset + int64(n), sumOf(r.ahead(n))}
	var more []sum
	for i := len(r.log.Marks); markAt(i) <= next.End; i++ {
		if at := markAt(i); at >= r.offset {
			more = append(more, sumOf(r.ahead(int(at-r.offset))))
		} else if s, ok, err := (content{r.file, r.offset}).before(at); ok && err == nil { // of a log that is not read from its start
			more = append(more, s)
		} else {
			break // the marks that are there are enough
		}
	}
	r.f.Positions.change(func() {
		r.log.Marks = append(r.log.Marks, more...)
		if next.End >= r.log.Read.End {
			r.log.Read = next
		}
	})
	return next
}

// ahead returns up to window bytes before the place that is n bytes of the room further.
func (r *reader) ahead(n int) []byte {
	all := r.f.buf[:window+n]
	copy(all[window-len(r.before):], r.before)
	return all[max(window-len(r.before), n):]
}

// advance goes on by n bytes of the room.
func (r *reader) advance(n int) {
	r.before = slices.Clone(r.ahead(n))
	r.offset += int64(n)
}

// fork makes the reader begin at offset, as a log of its own that has the same content before that as l.
func (r *reader) fork(l *logFile, offset int64) error {
	r.f.Positions.change(func() { r.base = slices.Clone(l.Marks) })
	for len(r.base) > 0 && markAt(len(r.base)-1) > offset {
		r.base = r.base[:len(r.base)-1]
	}
	return r.seek(offset)
}

// rename takes note of where the file is.
func (r *reader) rename(name string) {
	r.name = name
	if r.log != nil && string(r.log.Name) != name {
		r.f.Positions.change(func() { r.log.Name = filePath(name) })
	}
}

// last feeds the last line of a log to which nothing is added any more, if it has no line end.
func (r *reader) last(ctx context.Context) error {
	n, err := r.file.ReadAt(r.f.room(), r.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read log: %w", err)
	}
	text := r.f.room()[:n]
	if r.skipping {
		text = nil
	}
	if r.log == nil && (n == 0 || r.held(n)) {
		if r.ending {
			return nil
		}
		if n > 0 {
			r.f.Logger.Warn("log ended with no more than what another log begins with: it does not count, as it is a header or a copy", "path", r.name, "bytes", n)
			if r.f.Undecided != nil {
				r.f.Undecided()
			}
		}
		r.f.settled.add(onlyFile(r.id))
		return nil
	}
	r.skipping = false
	return r.send(ctx, text, n)
}

// acked reports whether all that was read is in Kafka. The log is finished then.
func (r *reader) acked() (all bool) {
	if r.log == nil {
		return true
	}
	r.f.Positions.change(func() {
		r.log.settle()
		all = len(r.log.pending) == 0
	})
	if !all {
		return false
	}
	if r.sink != nil {
		_ = r.sink.Close() // all is acknowledged
	}
	r.f.Positions.change(func() { r.log.sink, r.log.Finished = nil, true })
	return true
}

// end closes the file. What was read is still to be acknowledged.
func (r *reader) end() {
	r.ending = true
	r.letGo()
}

// lose closes a file that does not have what was read from it, and makes the log wait for another file that does.
func (r *reader) lose() {
	r.letGo()
	r.info, r.rotated = nil, true
	if r.lost.IsZero() {
		r.lost = r.f.Now()
	}
	r.ending = r.log == nil
}

// letGo closes the file, if there is one.
func (r *reader) letGo() {
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file = nil
}

// ErrCompressed says that the file at the path is compressed: the positions in it are no positions of lines. Test with errors.Is.
var ErrCompressed = errors.New("is compressed")

var errChanged = errors.New("file changes while it is looked at")

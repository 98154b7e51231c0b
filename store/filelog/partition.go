package filelog

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// partition is a list of segments, of which the last one grows. Its methods are safe for concurrent use.
type partition struct {
	disk   disk
	dir    string
	logger *slog.Logger
	limit  int64 // bytes of a segment

	syncing sync.Mutex // held during a sync; taken before mu

	mu       sync.Mutex
	segments []*segment    // guarded by mu: by offset; never empty
	durable  int64         // guarded by mu: everything before this offset is on disk
	changed  chan struct{} // guarded by mu: closed at the next append; nil: nobody waits
	broken   error         // guarded by mu: why nothing can be appended
}

func (p *partition) last() *segment { return p.segments[len(p.segments)-1] }

// ends returns the first offset that the partition holds, and the one that its next record will get.
func (p *partition) ends() (start, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.segments[0].base, p.last().next
}

// append writes a batch of n messages, and returns the offset that it has given to the first.
func (p *partition) append(batch []byte, n int, now time.Time) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return -1, p.broken
	}
	s := p.last()
	kafkaio.SetBase(batch, s.next)
	size := int64(len(batch))
	if s.size > 0 && s.size+size > p.limit {
		full := s
		s = newSegment(p.dir, s.next)
		s.fresh = true
		p.segments = append(p.segments, s)
		if full.users == 0 {
			p.closeFile(full)
		}
	}
	if err := p.write(s, batch); err != nil {
		return -1, err
	}
	base := s.next
	s.note(kafkaio.StoredBatch{Base: base, Last: base + int64(n) - 1, Bytes: size}, s.size)
	s.size, s.next, s.changed = s.size+size, base+int64(n), now
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	return base, nil
}

// write writes a batch behind a segment. After a failure the segment is as long as before.
func (p *partition) write(s *segment, batch []byte) error {
	f, err := p.use(s, true)
	if err != nil {
		return err
	}
	defer p.leave(s)
	if _, err = f.WriteAt(batch, s.size); err == nil {
		return nil
	}
	err = fmt.Errorf("write %s: %w", s.path, err)
	if cut := f.Truncate(s.size); cut != nil { // the next write begins at the same byte
		p.logger.Warn("cannot cut off a batch that was written in part", "file", s.path, "byte", s.size, "error", cut)
	}
	return err
}

// use opens the file of a segment, if it is closed, and keeps it open until leave. The caller holds mu.
func (p *partition) use(s *segment, create bool) (file, error) {
	if s.file == nil {
		f, err := p.disk.open(s.path, create && s.size == 0)
		if err != nil {
			return nil, err
		}
		s.file = f
	}
	s.users++
	return s.file, nil
}

// leave ends the use of a segment, and closes its file if it is complete and nobody else uses it. The caller holds mu.
func (p *partition) leave(s *segment) {
	if s.users--; s.users == 0 && s != p.last() {
		p.closeFile(s)
	}
}

// closeFile closes the file of a segment that is on disk. The caller holds mu.
func (p *partition) closeFile(s *segment) {
	if s.file == nil || s.synced < s.size {
		return
	}
	_ = s.file.Close() // nothing is written any more
	s.file = nil
}

// waiting returns a channel that is closed when there are records from an offset on, or nil if there are some.
func (p *partition) waiting(offset int64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset < p.last().next {
		return nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// view is a part of a segment that a reader may read.
type view struct {
	*window

	segment *segment
	entry   entry // where to begin
	next    int64 // behind the segment's last offset
}

// open returns a view of the segment that holds an offset. The caller closes it by shut. A *kafkaio.RangeError says that there is none.
func (p *partition) open(offset int64) (view, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	start, end := p.segments[0].base, p.last().next
	if offset < start || offset >= end {
		return view{}, &kafkaio.RangeError{Offset: offset, Start: start, End: end}
	}
	i, found := slices.BinarySearchFunc(p.segments, offset, func(s *segment, o int64) int { return int(min(max(s.base-o, -1), 1)) })
	if !found {
		i--
	}
	s := p.segments[i]
	f, err := p.use(s, false)
	if err != nil {
		return view{}, fmt.Errorf("open %s: %w", s.path, err)
	}
	return view{&window{file: f, size: s.size}, s, s.before(offset), s.next}, nil
}

// shut ends the use of a view, and lets the index have what was found.
func (p *partition) shut(v view, found []located) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range found {
		if l.at >= v.segment.indexed {
			v.segment.note(l.StoredBatch, l.at)
		}
	}
	p.leave(v.segment)
}

// located is a batch and the byte where it begins.
type located struct {
	kafkaio.StoredBatch
	at int64
}

// find returns the byte at which the batch begins that holds an offset, and how long it is. A *damage says that there is none.
func (v *view) find(offset int64) (b located, passed []located, err error) {
	for at, expected := v.entry.at, v.entry.offset; ; {
		h, err := v.batchAt(at, expected)
		bad, isBad := errors.AsType[*badBatch](err)
		switch {
		case isBad:
			to, by, err := v.resume(at, expected, v.next)
			if err != nil {
				return b, passed, err
			}
			if offset < by {
				return b, passed, &damage{path: v.segment.path, at: at, to: to, from: offset, by: by, why: bad}
			}
			at, expected = to, by
			continue
		case err != nil:
			return b, passed, fmt.Errorf("%s: %w", v.segment.path, err)
		}
		b = located{h, at}
		passed = append(passed, b)
		if offset <= h.Last {
			return b, passed, nil
		}
		at, expected = at+h.Bytes, h.Last+1
	}
}

// sync makes everything durable that was appended before, and returns the offset behind it.
func (p *partition) sync() (durable int64, err error) {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	p.mu.Lock()
	todo, end := slices.Clone(p.segments), p.last().next
	sizes := make([]int64, len(todo))
	for i, s := range todo {
		sizes[i] = s.size
	}
	p.mu.Unlock()
	for i, s := range todo {
		if err := p.syncSegment(s, sizes[i]); err != nil {
			return 0, fmt.Errorf("sync %s: %w", s.path, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.durable = end
	return end, nil
}

// syncSegment makes the first size bytes of a segment durable, and its name.
func (p *partition) syncSegment(s *segment, size int64) error {
	p.mu.Lock()
	if s.synced >= size {
		p.mu.Unlock()
		return nil
	}
	f, err := p.use(s, false)
	fresh := s.fresh
	p.mu.Unlock()
	if err != nil {
		return err
	}
	if err = f.Sync(); err == nil && fresh {
		err = p.disk.syncDir(p.dir)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(s)
	if err != nil {
		// The system may forget what it could not write after it has said so once. Nobody knows what is on disk then.
		p.broken = fmt.Errorf("nothing is appended after a failed sync: %w", err)
		return err
	}
	s.synced, s.fresh = size, false
	return nil
}

// trim removes the segments whose records are all before an offset. The last segment stays.
func (p *partition) trim(before int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.segments) > 1 && p.segments[0].next <= before {
		s := p.segments[0]
		if s.users > 0 {
			return nil // the next call removes it
		}
		if err := p.disk.remove(s.path); err != nil {
			return fmt.Errorf("remove %s: %w", s.path, err)
		}
		p.segments = p.segments[1:]
	}
	return nil
}

func (p *partition) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, s := range p.segments {
		if s.file != nil {
			errs = append(errs, s.file.Close())
			s.file = nil
		}
	}
	p.broken = kafkaio.ErrClosed
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	return errors.Join(errs...)
}

// openPartition opens a partition, whose records before durable were synced.
func openPartition(d disk, dir string, durable, limit int64, logger *slog.Logger) (*partition, error) {
	p := &partition{disk: d, dir: dir, limit: limit, durable: durable, logger: logger}
	names, err := d.list(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names {
		if base := baseOf(name); base >= 0 {
			p.segments = append(p.segments, newSegment(dir, base))
		}
	}
	slices.SortFunc(p.segments, func(a, b *segment) int { return int(min(max(a.base-b.base, -1), 1)) })
	if len(p.segments) == 0 {
		s := newSegment(dir, max(durable, 0))
		s.fresh = true
		p.segments = append(p.segments, s)
		return p, nil
	}
	return p, p.recover()
}

// recover finds out how far the segments can be trusted, and cuts off what follows.
func (p *partition) recover() error {
	first := len(p.segments) - 1
	for first > 0 && p.segments[first].base > p.durable {
		first-- // this segment may have lost its end, and those behind it count only if it has not
	}
	for i, s := range p.segments[:first] {
		s.next = p.segments[i+1].base
		if err := p.measure(s); err != nil {
			return err
		}
		s.synced = s.size
	}
	for i := first; i < len(p.segments); i++ {
		s := p.segments[i]
		if i > first && s.base != p.segments[i-1].next {
			return p.removeFrom(i)
		}
		if err := p.scan(s); err != nil {
			return err
		}
	}
	if end := p.last().next; end < p.durable {
		p.logger.Error("the end of a log is missing", "file", p.last().path, "got", end, "want", p.durable)
		p.last().next = p.durable
		s := newSegment(p.dir, p.durable)
		s.fresh = true
		p.segments = append(p.segments, s)
	}
	return nil
}

// removeFrom removes the segments from index i on: the one before lacks its end.
func (p *partition) removeFrom(i int) error {
	for n := len(p.segments) - 1; n >= i; n-- {
		s := p.segments[n]
		p.logger.Warn("removed a part of the log that was never synced: the part before it is not whole", "file", s.path)
		if err := p.disk.remove(s.path); err != nil {
			return fmt.Errorf("remove %s: %w", s.path, err)
		}
		p.segments = p.segments[:n]
	}
	return nil
}

// measure asks how long a segment is and when it was last changed.
func (p *partition) measure(s *segment) error {
	f, err := p.disk.open(s.path, false)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	s.size, s.changed, err = f.info()
	return errors.Join(err, f.Close())
}

// scan walks over the batches of a segment, and cuts off what follows the first batch that is not whole and was not synced.
func (p *partition) scan(s *segment) error {
	f, err := p.use(s, false)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	defer p.leave(s)
	size, changed, err := f.info()
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	s.changed = changed
	w := &window{file: f, size: size}
	at, expected := int64(0), s.base
	for at < size {
		b, err := w.batchAt(at, expected)
		bad, isBad := errors.AsType[*badBatch](err)
		switch {
		case err == nil:
			s.note(b, at)
			at, expected = at+b.Bytes, b.Last+1
			continue
		case !isBad:
			return fmt.Errorf("%s: %w", s.path, err)
		case expected >= p.durable:
			p.logger.Warn("cut off the end of the log, which was never synced", "file", s.path, "byte", at, "bytes", size-at, "because", bad)
			if err := f.Truncate(at); err != nil {
				return fmt.Errorf("cut %s at byte %d: %w", s.path, at, err)
			}
			size = at
			continue
		}
		to, by, err := w.resume(at, expected, math.MaxInt64)
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		p.logger.Error("the log is damaged", "file", s.path, "byte", at, "to_byte", to, "offset", expected, "to_offset", min(by, p.durable)-1, "because", bad)
		if by > p.durable { // what is behind was never synced, and does not count without what is missing
			if err := f.Truncate(at); err != nil {
				return fmt.Errorf("cut %s at byte %d: %w", s.path, at, err)
			}
			size = at
			continue
		}
		at, expected = to, by
	}
	s.size, s.next = size, expected
	return nil
}

// set is record batches as they are in a file.
type set struct {
	path  string
	at    int64 // the byte of the first batch
	bytes []byte
}

// read returns the batch that holds an offset and batches behind it, up to max bytes. A *damage says that there is none.
func (p *partition) read(offset int64, maxBytes int) (set, error) {
	v, err := p.open(offset)
	if err != nil {
		return set{}, err
	}
	b, passed, err := v.find(offset)
	defer p.shut(v, passed)
	if err != nil {
		return set{}, err
	}
	if maxBytes <= 0 {
		maxBytes = kafkaio.DefaultMaxBytes
	}
	s := set{path: v.segment.path, at: b.at, bytes: make([]byte, min(max(int64(maxBytes), b.Bytes), v.size-b.at))}
	if n, err := v.file.ReadAt(s.bytes, b.at); n < len(s.bytes) {
		return set{}, fmt.Errorf("read %s at byte %d: got %d bytes, want %d: %w", s.path, b.at, n, len(s.bytes), noEOF(err))
	}
	s.bytes = s.bytes[:consecutive(s.bytes, b.Base)]
	return s, nil
}

// consecutive returns how many bytes of a set are batches whose offsets follow each other, beginning with base. No checksum covers an offset.
func consecutive(set []byte, base int64) (length int64) {
	for int64(len(set)) >= length+kafkaio.BatchHeaderBytes {
		b, err := kafkaio.ReadBatchHeader(set[length:])
		if err != nil || b.Base != base || int64(len(set)) < length+b.Bytes {
			break
		}
		length, base = length+b.Bytes, b.Last+1
	}
	return length
}

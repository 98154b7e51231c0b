package filelog

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// set is record batches as they are in a file.
type set struct {
	path  string
	at    int64 // the byte of the first batch
	bytes []byte
}

// damage is a stretch of a segment that holds no batch that can be read.
type damage struct {
	path   string
	at, to int64 // bytes: the next good batch begins at to
	next   int64 // the first offset that is there again
	why    error
}

// Error says where and what.
func (d *damage) Error() string {
	return fmt.Sprintf("%s: damaged at byte %d, up to byte %d: %v", d.path, d.at, d.to, d.why)
}

// view is a part of a segment that a reader may read.
type view struct {
	window

	segment *segment
	start   entry // where to begin
	next    int64 // behind the segment's last offset
	found   index // where batches begin that the reader has come by
}

// read returns the batch that holds an offset and batches behind it, up to max bytes. A *damage says that there is none.
func (p *partition) read(offset int64, maxBytes int) (set, error) {
	v, err := p.openView(offset)
	if err != nil {
		return set{}, err
	}
	defer p.closeView(v)
	at, b, err := v.find(offset)
	if err != nil {
		return set{}, err
	}
	if maxBytes <= 0 {
		maxBytes = kafkaio.DefaultMaxBytes
	}
	s := set{path: v.segment.path, at: at, bytes: make([]byte, min(max(int64(maxBytes), b.Bytes), v.size-at))}
	err = readAt(v.file, s.bytes, at)
	if errors.Is(err, syscall.EIO) { // a bad sector behind this batch
		s.bytes = s.bytes[:b.Bytes]
		err = readAt(v.file, s.bytes, at)
	}
	if err != nil {
		return set{}, fmt.Errorf("%s: %w", s.path, err)
	}
	s.bytes = s.bytes[:v.consecutive(s.bytes, at, b.Base)]
	return s, nil
}

// openView returns a view of the segment that holds an offset. The caller closes it by closeView. A *kafkaio.RangeError says that there is none.
func (p *partition) openView(offset int64) (*view, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	start, end := p.segments[0].base, p.last().next
	if offset < start || offset >= end {
		return nil, &kafkaio.RangeError{Offset: offset, Start: start, End: end}
	}
	i, found := slices.BinarySearchFunc(p.segments, offset, byBase)
	if !found {
		i--
	}
	s := p.segments[i]
	f, err := p.use(s, false)
	if err != nil {
		return nil, err
	}
	return &view{window: window{file: f, size: s.size}, segment: s, start: s.index.before(offset, entry{s.base, 0}), next: s.next}, nil
}

// closeView ends the use of a view, and lets the index have what it has found.
func (p *partition) closeView(v *view) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range v.found {
		v.segment.index.note(e)
	}
	p.leave(v.segment)
}

// find returns the byte at which the batch begins that holds an offset, and the batch. A *damage says that there is none.
func (v *view) find(offset int64) (at int64, b kafkaio.StoredBatch, err error) {
	at, expected := v.start.at, v.start.offset
	for {
		b, err = v.batchAt(at, expected, v.next)
		if isBad(err) {
			why := err
			if v.unreadable != nil {
				why = fmt.Errorf("%w, after %w", err, v.unreadable)
			}
			to, next, err := v.resume(at, expected, v.next)
			if err != nil {
				return 0, b, fmt.Errorf("%s: %w", v.segment.path, err)
			}
			if offset < next {
				return 0, b, &damage{path: v.segment.path, at: at, to: to, next: next, why: why}
			}
			at, expected = to, next
			continue
		}
		if err != nil {
			return 0, b, fmt.Errorf("%s: %w", v.segment.path, err)
		}
		v.found.note(entry{b.Base, at})
		if offset <= b.Last {
			return at, b, nil
		}
		at, expected = at+b.Bytes, b.Last+1
	}
}

// consecutive returns how many bytes of a set, which begins at a byte of the file, are batches whose offsets follow each other, beginning with
// base. No checksum covers an offset.
func (v *view) consecutive(set []byte, at, base int64) (length int64) {
	for int64(len(set)) >= length+kafkaio.BatchHeaderBytes {
		b, err := kafkaio.ReadBatchHeader(set[length:])
		if err != nil || b.Base != base || b.Last >= v.next || int64(len(set)) < length+b.Bytes {
			break
		}
		v.found.note(entry{base, at + length})
		length, base = length+b.Bytes, b.Last+1
	}
	return length
}

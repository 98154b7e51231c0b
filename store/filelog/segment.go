package filelog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	indexEvery = 32 << 10 // bytes between two entries of an index
	readAhead  = 64 << 10 // bytes that a walk over headers reads at once
	nameDigits = 20       // of the name of a segment
	nameEnd    = ".log"   // as Kafka's
)

// segment is a file of record batches. The partition's lock guards its fields; what lies before size never changes.
type segment struct {
	path    string
	base    int64 // offset of the first record
	next    int64 // behind the last record
	size    int64 // bytes
	synced  int64 // bytes that are on disk for sure
	fresh   bool  // its name is not on disk for sure
	changed time.Time

	file  file // nil: closed
	users int  // reads in progress

	index   []entry // where batches begin, in order
	indexed int64   // bytes that the index covers
	scanned int64   // the offset behind these bytes
}

// entry says where the batch begins whose first record has an offset.
type entry struct{ offset, at int64 }

func segmentName(base int64) string { return fmt.Sprintf("%0*d%s", nameDigits, base, nameEnd) }

// baseOf returns the offset in the name of a segment; -1 for other files.
func baseOf(name string) int64 {
	digits, ok := strings.CutSuffix(name, nameEnd)
	base, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || len(digits) != nameDigits || base < 0 {
		return -1
	}
	return base
}

func newSegment(dir string, base int64) *segment {
	return &segment{path: filepath.Join(dir, segmentName(base)), base: base, next: base, scanned: base}
}

// note adds a batch that begins at a byte to the index, if the entry before is far enough away or damage lies between.
func (s *segment) note(b kafkaio.StoredBatch, at int64) {
	if n := len(s.index); n == 0 || at-s.index[n-1].at >= indexEvery || b.Base != s.scanned {
		s.index = append(s.index, entry{b.Base, at})
	}
	s.indexed, s.scanned = at+b.Bytes, b.Last+1
}

// before returns the last entry of the index at or before an offset, or the start.
func (s *segment) before(offset int64) entry {
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].offset > offset })
	if i == 0 {
		return entry{s.base, 0}
	}
	return s.index[i-1]
}

// damage is a stretch of a segment that holds no batch that can be read.
type damage struct {
	path     string
	at, to   int64 // bytes: the next good batch begins at to
	from, by int64 // offsets: from is missing, and by is the first that is there again
	why      error
}

// Error says where and what.
func (d *damage) Error() string {
	return fmt.Sprintf("%s: damaged at byte %d, up to byte %d: %v", d.path, d.at, d.to, d.why)
}

// window reads a file through a buffer.
type window struct {
	file  io.ReaderAt
	size  int64 // of the file, as far as it counts
	at    int64 // of the first byte in bytes
	bytes []byte
}

// from returns n bytes from a position on, or fewer at the end of the file.
func (w *window) from(at, n int64) ([]byte, error) {
	n = min(n, w.size-at)
	if n <= 0 {
		return nil, nil
	}
	if at < w.at || at+n > w.at+int64(len(w.bytes)) {
		length := min(max(n, readAhead), w.size-at)
		if int64(cap(w.bytes)) < length {
			w.bytes = make([]byte, length)
		}
		w.bytes, w.at = w.bytes[:length], at
		if got, err := w.file.ReadAt(w.bytes, at); int64(got) < length {
			w.bytes = w.bytes[:0]
			return nil, fmt.Errorf("read %d bytes at byte %d: got %d: %w", length, at, got, noEOF(err))
		}
	}
	return w.bytes[at-w.at:][:n], nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

var errTorn = errors.New("the file ends within a batch")

// batchAt returns the batch that begins at a byte and has the offset expected. An error that is no *badBatch is one of reading.
func (w *window) batchAt(at, expected int64) (kafkaio.StoredBatch, error) {
	head, err := w.from(at, kafkaio.BatchHeaderBytes)
	if err != nil {
		return kafkaio.StoredBatch{}, err
	}
	if len(head) < kafkaio.BatchHeaderBytes {
		return kafkaio.StoredBatch{}, &badBatch{errTorn}
	}
	b, err := kafkaio.ReadBatchHeader(head)
	switch {
	case err != nil:
		return b, &badBatch{err}
	case b.Base != expected:
		return b, &badBatch{fmt.Errorf("got base offset %d, want %d", b.Base, expected)}
	case at+b.Bytes > w.size:
		return b, &badBatch{errTorn}
	}
	all, err := w.from(at, b.Bytes)
	if err == nil && !kafkaio.ChecksumFits(all) {
		err = &badBatch{errors.New("wrong checksum")}
	}
	return b, err
}

// badBatch says why no batch begins at a byte.
type badBatch struct{ why error }

func (b *badBatch) Error() string { return b.why.Error() }

// resume looks behind a damage for the next batch: one whose offset is above expected and below end, whose checksum is right, and which the
// end of the file or another batch follows. Without one, it returns the end of the file and the offset end.
func (w *window) resume(at, expected, end int64) (to, by int64, err error) {
	for to = at + 1; to+kafkaio.BatchHeaderBytes <= w.size; to++ {
		head, err := w.from(to, kafkaio.BatchHeaderBytes)
		if err != nil {
			return 0, 0, err
		}
		b, err := kafkaio.ReadBatchHeader(head)
		if err != nil || b.Base < expected || b.Last >= end || to+b.Bytes > w.size {
			continue
		}
		if _, err := w.batchAt(to, b.Base); err != nil {
			continue
		}
		if behind := to + b.Bytes; behind < w.size {
			if next, err := w.from(behind, kafkaio.BatchHeaderBytes); err != nil || len(next) < kafkaio.BatchHeaderBytes {
				continue
			} else if h, err := kafkaio.ReadBatchHeader(next); err != nil || h.Base <= b.Last {
				continue
			}
		}
		return to, b.Base, nil
	}
	return w.size, end, nil
}

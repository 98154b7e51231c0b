package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// maxBuckets is how many buckets a sorter has at most.
const maxBuckets = 4096

// sorter puts lines into the order of their time, ties in the order in which they came. A line older than the newest
// seen − span is late and refused; all others leave in order, once no older one can come any more. The order is that of
// sorting them all at once: how lines fall into buckets does not show.
//
// Lines wait in buckets by time, a second wide where the span allows, and in the order in which they came. Logs with
// times of a second need no sorting at all then; the others are sorted bucket by bucket on release. What waits is copied
// into chunks, of which there are at most so many: at the cap the oldest bucket leaves early, and lines older than
// that are late from then on. One goroutine uses a sorter.
type sorter struct {
	span    int64
	width   int64    // of a bucket, in nanoseconds
	buckets []bucket // a ring: the bucket of time t is at t/width mod len
	base    int64    // number (t/width) of the oldest bucket that may hold lines
	newest  int64    // newest time seen; -1 before the first
	floor   int64    // newest time that left early
	waiting int64
	early   int64 // lines that left early, because of the cap
	chunks  chunks
	order   []place // scratch of release
	emit    func(*ingest.Line)
	line    ingest.Line // what emit is given
}

// bucket holds lines of one width of time.
type bucket struct {
	chunks   []*chunk
	last     int64 // time of the line that came last
	unsorted bool
}

// place is where a line stands in a bucket.
type place struct {
	time  int64
	chunk int32
	at    int32
}

// newSorter returns a sorter of lines with that many callers, which gives lines to emit; each is good until emit returns.
func newSorter(span time.Duration, callers int, maxBytes int64, emit func(*ingest.Line)) *sorter {
	width := max(int64(time.Second), (int64(span)+maxBuckets-1)/maxBuckets)
	return &sorter{
		span: int64(span), width: width, buckets: make([]bucket, int64(span)/width+2), newest: -1,
		chunks: chunks{limit: int(maxBytes / chunkSize)},
		emit:   emit, line: ingest.Line{IDs: make([]string, callers)},
	}
}

// push takes a line, and reports false if it is late. Older lines may be emitted before it returns.
func (s *sorter) push(l *ingest.Line) bool {
	if l.Time < s.newest-s.span || l.Time < s.floor {
		return false
	}
	if l.Time > s.newest {
		s.newest = l.Time
		s.releaseTo((s.newest - s.span) / s.width)
	}
	b := s.bucketOf(l.Time / s.width)
	for !s.add(b, l) {
		if s.releaseOldest(); l.Time < s.floor {
			return false
		}
	}
	s.waiting++
	return true
}

// flush emits all lines that wait.
func (s *sorter) flush() {
	if s.newest >= 0 {
		s.releaseTo(s.newest/s.width + 1)
	}
}

func (s *sorter) bucketOf(n int64) *bucket { return &s.buckets[n%int64(len(s.buckets))] }

// releaseTo emits the lines of all buckets before number n.
func (s *sorter) releaseTo(n int64) {
	for ; s.base < n && s.waiting > 0; s.base++ {
		s.release(s.bucketOf(s.base))
	}
	s.base = max(s.base, n)
}

// releaseOldest emits the lines of the oldest bucket that has some, before their time.
func (s *sorter) releaseOldest() {
	for n := s.base; ; n++ {
		b := s.bucketOf(n)
		if len(b.chunks) == 0 {
			continue
		}
		before := s.waiting
		s.floor = max(s.floor, s.release(b))
		s.early += before - s.waiting
		return
	}
}

// add appends a line to a bucket, or reports that there is no chunk left for it.
func (s *sorter) add(b *bucket, l *ingest.Line) bool {
	n := len(b.chunks)
	if n == 0 || !b.chunks[n-1].add(l) {
		c := s.chunks.take()
		if c == nil {
			return false
		}
		c.add(l)
		b.chunks = append(b.chunks, c)
	}
	b.unsorted = b.unsorted || n > 0 && l.Time < b.last
	b.last = l.Time
	return true
}

// release emits the lines of a bucket, empties it, and returns the newest time in it.
func (s *sorter) release(b *bucket) int64 {
	newest := b.last
	if b.unsorted {
		newest = s.emitSorted(b)
	} else {
		for _, c := range b.chunks {
			for at := 0; at < len(c.data); {
				at = c.read(at, &s.line)
				s.emit(&s.line)
				s.waiting--
			}
		}
	}
	for i, c := range b.chunks {
		s.chunks.give(c)
		b.chunks[i] = nil
	}
	*b = bucket{chunks: b.chunks[:0]}
	return newest
}

// emitSorted emits the lines of a bucket that are not in order, and returns the newest time in it.
func (s *sorter) emitSorted(b *bucket) int64 {
	s.order = s.order[:0]
	for i, c := range b.chunks {
		for at := 0; at < len(c.data); {
			next := c.read(at, &s.line)
			s.order = append(s.order, place{s.line.Time, int32(i), int32(at)})
			at = next
		}
	}
	slices.SortFunc(s.order, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.chunk, b.chunk), cmp.Compare(a.at, b.at))
	})
	for _, p := range s.order {
		b.chunks[p.chunk].read(int(p.at), &s.line)
		s.emit(&s.line)
	}
	s.waiting -= int64(len(s.order))
	return s.order[len(s.order)-1].time
}

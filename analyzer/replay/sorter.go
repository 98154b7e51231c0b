package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// maxBuckets is how many buckets a sorter has at most.
const maxBuckets = 4096

// sorter sorts lines by time; lines of equal time keep their order. A line older than the newest time so far minus span is
// late and refused. All other lines are emitted in order, as soon as no older one can come any more. The result is the same
// as if all lines were sorted at once; it does not depend on the buckets.
//
// Lines wait in buckets by time, each a second wide if the span allows, in the order in which they came. So logs with times
// in whole seconds need no sorting. Others are sorted bucket by bucket when a bucket is released. Lines that wait are
// copied into chunks, whose number is capped. At the cap the oldest bucket is emitted early, and from then on lines older
// than that are late. One goroutine uses a sorter.
type sorter struct {
	span    int64
	width   int64    // of a bucket, in nanoseconds
	buckets []bucket // a ring: the bucket of time t is at t/width mod len
	base    int64    // number (t/width) of the oldest bucket that may contain lines
	newest  int64    // newest time seen; -1 before the first
	floor   int64    // newest time that was emitted early
	waiting int64
	early   int64 // lines that were emitted early, because of the cap
	looks   int64 // looks at buckets in search of the oldest one with lines; tests measure the work by it
	chunks  chunks
	order   []place // scratch of release
	emit    func(*ingest.Line)
	line    ingest.Line // the argument of emit
}

// bucket holds lines of one width of time.
type bucket struct {
	chunks   []*chunk
	last     int64 // time of the last line that was added
	unsorted bool
}

// place is the position of a line in a bucket.
type place struct {
	time  int64
	chunk int32
	at    int32
}

// newSorter returns a sorter of lines that have the given number of callers. It calls emit with each line, which is valid
// until emit returns.
func newSorter(span time.Duration, callers int, maxBytes int64, emit func(*ingest.Line)) *sorter {
	width := max(int64(time.Second), (int64(span)+maxBuckets-1)/maxBuckets)
	return &sorter{
		span: int64(span), width: width, buckets: make([]bucket, int64(span)/width+2), newest: -1,
		chunks: chunks{limit: int(maxBytes / chunkSize)},
		emit:   emit, line: ingest.Line{IDs: make([]string, callers)},
	}
}

// push adds a line, or returns false if it is late. It may emit older lines before it returns.
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

// releaseOldest emits early the lines of the oldest bucket that has lines. Buckets that were searched before are not
// searched again, because no line before the floor is accepted.
func (s *sorter) releaseOldest() {
	for n := max(s.base, s.floor/s.width); ; n++ {
		b := s.bucketOf(n)
		s.looks++
		if len(b.chunks) == 0 {
			continue
		}
		before := s.waiting
		s.floor = max(s.floor, s.release(b))
		s.early += before - s.waiting
		return
	}
}

// add appends a line to a bucket, or returns false if there is no chunk left for it.
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

package replay

import (
	"container/heap"
	"context"
	"errors"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// head is the next line of a source.
type head struct {
	line   *ingest.Line
	source *source
	index  int // of the source
}

// heads is a heap.Interface: the head with the oldest line comes first; of equal times, the head of the source that was
// given first.
type heads []head

// Len implements heap.Interface.
func (h heads) Len() int { return len(h) }

// Less implements heap.Interface.
func (h heads) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return a.line.Time < b.line.Time || a.line.Time == b.line.Time && a.index < b.index
}

// Swap implements heap.Interface.
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *heads) Push(x any) { *h = append(*h, x.(head)) } //nolint:errcheck,forcetypeassert // heap.Push is given a head

// Pop implements heap.Interface.
func (h *heads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// merge brings the lines of several sources into one order and calls f with each of them, until f fails; a line is valid
// until f returns. The next line is always the oldest of the sources' next lines. So the result is out of order by no more
// time than the worst source. An error of an input is returned at the end, and the lines that were read before it count.
func merge(ctx context.Context, sources []*source, sum *Summary, f func(*ingest.Line) error) error {
	var next heads
	var errs []error
	for i, s := range sources {
		line, err := s.advance(ctx, sum)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, err)
		if line != nil {
			next = append(next, head{line, s, i})
		}
	}
	heap.Init(&next)
	for len(next) > 0 {
		h := &next[0]
		if err := f(h.line); err != nil {
			return err
		}
		line, err := h.source.advance(ctx, sum)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			errs = append(errs, err)
		}
		if h.line = line; line == nil {
			heap.Pop(&next)
			continue
		}
		heap.Fix(&next, 0)
	}
	return errors.Join(errs...)
}

package replay

import (
	"context"
	"errors"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas/heap"
)

// head is the next line of a source.
type head struct {
	line   *ingest.Line
	source *source
	index  int // of the source
}

// before orders heads by the time of their lines. Of equal times, the source that was given first comes first.
func (h *head) before(other *head) bool {
	return h.line.Time < other.line.Time || h.line.Time == other.line.Time && h.index < other.index
}

// merge brings the lines of several sources into one order and calls f with each of them, until f fails; a line is valid
// until f returns. The next line is always the oldest of the sources' next lines. So the result is out of order by no more
// time than the worst source. An error of an input is returned at the end, and the lines that were read before it count.
func merge(ctx context.Context, sources []*source, sum *Summary, f func(*ingest.Line) error) error {
	next := heap.New((*head).before, nil)
	var errs []error
	for i, s := range sources {
		line, err := s.advance(ctx, sum)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, err)
		if line != nil {
			next.Add(head{line, s, i})
		}
	}
	for next.Len() > 0 {
		h := next.At(0)
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
			next.Remove(0)
			continue
		}
		next.Fix(0)
	}
	return errors.Join(errs...)
}

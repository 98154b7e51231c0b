package replay

import (
	"context"
	"errors"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// merger brings the lines of several sources into one order: always the source whose next line is the oldest, and of
// equal times the one given first. A source that is out of order by some time leaves the whole out of order by at most
// the same. One goroutine uses a merger.
type merger struct {
	heads []head // a binary heap, the next one first
	errs  []error
}

// head is the next line of a source.
type head struct {
	line   *ingest.Line
	source *source
	index  int // of the source
}

// before reports whether a comes before b.
func (a *head) before(b *head) bool {
	return a.line.Time < b.line.Time || a.line.Time == b.line.Time && a.index < b.index
}

// merge calls f with each line in order, until f fails; a line is good until f returns. Inputs that could not be read to
// their end are reported in the end: what was read of them counts.
func merge(ctx context.Context, sources []*source, sum *Summary, f func(*ingest.Line) error) error {
	var m merger
	for i, s := range sources {
		line, err := s.advance(ctx, sum)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			m.errs = append(m.errs, err)
		}
		if line != nil {
			m.heads = append(m.heads, head{line, s, i})
			m.up(len(m.heads) - 1)
		}
	}
	for len(m.heads) > 0 {
		h := &m.heads[0]
		if err := f(h.line); err != nil {
			return err
		}
		line, err := h.source.advance(ctx, sum)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			m.errs = append(m.errs, err)
		}
		if h.line = line; line == nil {
			last := len(m.heads) - 1
			m.heads[0] = m.heads[last]
			m.heads = m.heads[:last]
		}
		m.down()
	}
	return errors.Join(m.errs...)
}

// up moves the head at index i to its place in the heap.
func (m *merger) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !m.heads[i].before(&m.heads[parent]) {
			return
		}
		m.heads[i], m.heads[parent] = m.heads[parent], m.heads[i]
		i = parent
	}
}

// down moves the first head to its place in the heap.
func (m *merger) down() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heads); child++ {
			if m.heads[child].before(&m.heads[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heads[i], m.heads[least] = m.heads[least], m.heads[i]
		i = least
	}
}

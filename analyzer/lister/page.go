package lister

import (
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas/heap"
)

// Page is the answer to a Query.
type Page struct {
	At    analyzer.At // of the last piece of the walk; each line has an offset of its own
	Lines []Line      // in order
	Total int         // rows that the filter lets through, on all pages
}

// collector finds the first lines of a query.
type collector struct {
	query Query
	size  int             // how many lines to collect: more than a page has, because two may be of one row
	lines heap.Heap[Line] // the last line first
	total int
}

// spare is how many lines a collector holds in addition to those of a page.
const spare = 8

// newCollector returns a collector, with the memory that it needs, so that the owner does not wait for that.
func newCollector(q Query) *collector {
	c := &collector{query: q, size: q.Limit + spare}
	c.lines = heap.New(func(a, b *Line) bool { return a.compare(&b.Key) > 0 }, nil)
	c.clear()
	return c
}

// clear begins again.
func (c *collector) clear() {
	c.lines.Clear()
	c.lines.Grow(c.size)
	c.total = 0
}

// take takes a row, which it copies only if it is among the first until now.
func (c *collector) take(r *fold.Row, share float64, at analyzer.At, now int64) {
	q := &c.query
	if !q.holds(r, share) {
		return
	}
	c.total++
	value := share
	switch {
	case q.ByCount:
		value = float64(r.Total)
	case r.Unlimited:
		value = 0
	}
	lines := &c.lines
	full := lines.Len() >= c.size
	if full && value < lines.At(0).Value {
		return
	}
	k := Key{Value: value, Rule: r.Rule.Name, Kind: r.Rule.Kind, ID: r.ID}
	if q.Paged && k.compare(&q.After) <= 0 || full && k.compare(&lines.At(0).Key) >= 0 {
		return
	}
	l := lineOf(r, share, at, now)
	l.Key = k
	if !full {
		lines.Add(l)
		return
	}
	*lines.At(0) = l
	lines.Fix(0)
}

// page returns the lines in order. A row that was dropped and made anew during the walk may have been visited twice: the first of its
// lines counts.
func (c *collector) page(at analyzer.At) *Page {
	found := make([]Line, c.lines.Len())
	for i := range found {
		found[i] = *c.lines.At(i)
	}
	slices.SortFunc(found, func(a, b Line) int { return a.compare(&b.Key) })
	seen := make(map[Key]bool, len(found))
	lines := slices.DeleteFunc(found, func(l Line) bool {
		k := l.Key
		k.Value = 0
		twice := seen[k]
		seen[k] = true
		return twice
	})
	return &Page{At: at, Lines: lines[:min(len(lines), c.query.Limit)], Total: c.total}
}

// lineOf returns a row as a line.
func lineOf(r *fold.Row, share float64, at analyzer.At, now int64) Line {
	return Line{
		Key:       Key{Value: share, Rule: r.Rule.Name, Kind: r.Rule.Kind, ID: r.ID},
		Partition: at.Partition, Offset: at.Offset, Now: now, Definition: r.Rule, Total: r.Total, Limit: r.Limit, Share: share,
		Unlimited: r.Unlimited, LowerBound: r.LowerBound(), Closure: r.Closure,
	}
}

// shareOf returns how much of its capacity a row holds.
func shareOf(r *fold.Row) float64 {
	return float64(r.Total) / float64(max(r.Rule.Window.Capacity(r.Limit), 1))
}

func utc(t int64) time.Time { return time.Unix(0, t).UTC() }

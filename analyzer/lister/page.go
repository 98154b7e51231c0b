package lister

import (
	"container/heap"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
)

// Page is the answer to a Query.
type Page struct {
	At    analyzer.At // of the last piece of the walk; each line has an offset of its own
	Lines []Line      // in order
	Total int         // rows that the filter lets through, on all pages
}

// collector finds the first lines of a query. It is a heap (container/heap) of them, the last line first.
type collector struct {
	query Query
	size  int // lines that are collected: some more than the page has, since some may be of one row
	lines []Line
	total int
}

// spare is how many lines more than a page has are collected.
const spare = 8

// newCollector returns a collector, with the memory that it needs, so that the owner does not wait for that.
func newCollector(q Query) *collector {
	size := q.Limit + spare
	return &collector{query: q, size: size, lines: make([]Line, 0, size)}
}

// clear begins again.
func (c *collector) clear() { c.lines, c.total = c.lines[:0], 0 }

// take takes a row, which it copies only if it is among the first until now.
func (c *collector) take(r *fold.Row, share float64, at analyzer.At, now int64) {
	q := &c.query
	if !q.holds(r, share) {
		return
	}
	c.total++
	value := share
	switch {
	case q.Sort == ByCount:
		value = float64(r.Total)
	case r.Unlimited:
		value = 0
	}
	full := len(c.lines) >= c.size
	if full && value < c.lines[0].Value {
		return
	}
	k := Key{Value: value, Rule: r.Rule.Name, Kind: r.Rule.Kind, ID: r.ID}
	if q.Paged && k.compare(&q.After) <= 0 || full && k.compare(&c.lines[0].Key) >= 0 {
		return
	}
	l := lineOf(r, share, at, now)
	l.Key = k
	if !full {
		c.lines = append(c.lines, l)
		heap.Fix(c, len(c.lines)-1) // heap.Push would allocate
		return
	}
	c.lines[0] = l
	heap.Fix(c, 0)
}

// page returns the lines in order. A row that was dropped and made anew during the walk may have been visited twice: the first of its
// lines counts.
func (c *collector) page(at analyzer.At) *Page {
	slices.SortFunc(c.lines, func(a, b Line) int { return a.compare(&b.Key) })
	seen := make(map[Key]bool, len(c.lines))
	lines := slices.DeleteFunc(c.lines, func(l Line) bool {
		k := l.Key
		k.Value = 0
		was := seen[k]
		seen[k] = true
		return was
	})
	return &Page{At: at, Lines: slices.Clone(lines[:min(len(lines), c.query.Limit)]), Total: c.total}
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

// Len, Less, Swap, Push and Pop are heap.Interface.
func (c *collector) Len() int { return len(c.lines) }

func (c *collector) Less(i, j int) bool { return c.lines[i].compare(&c.lines[j].Key) > 0 }

func (c *collector) Swap(i, j int) { c.lines[i], c.lines[j] = c.lines[j], c.lines[i] }

// Push panics: take does without.
func (c *collector) Push(any) { panic("BUG: push to a page") }

// Pop panics: nothing is popped.
func (c *collector) Pop() any { panic("BUG: pop from a page") }

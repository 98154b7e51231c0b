package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bounds of a Page.
const (
	maxLooked  = 1 << 16 // records that one page looks at, in all partitions
	pageBytes  = 1 << 20 // in one fetch
	probeBytes = 1 << 10
	turns      = 4 // pages at a time
)

// History reads a topic of events. Its methods are safe for concurrent use.
type History struct {
	log        kafkaio.Fetcher
	topic      string
	partitions int
	turns      chan struct{}
}

// New returns a History of a topic. It does no I/O.
func New(log kafkaio.Fetcher, topic string, partitions int) *History {
	return &History{log: log, topic: topic, partitions: partitions, turns: make(chan struct{}, turns)}
}

// Query says which events a Page has.
type Query struct {
	Since time.Time               // the first: by the event's own time
	After []int64                 // Page.Next of the page before; nil: from Since on
	Limit int                     // events, 1 or more
	Keep  func(*event.Event) bool // nil keeps all
}

// Page is events, the oldest first; those of a partition are in the order of the log.
type Page struct {
	Events     []event.Event
	Next       []int64 // by partition, where the next page begins; nil: there is no more now
	Unreadable int     // messages that are no events
}

// Page returns a page. Copies of an event on one page are left out. The errors are those of the log and of ctx.
func (h *History) Page(ctx context.Context, q Query) (Page, error) {
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return Page{}, ctx.Err()
	}
	var page Page
	lists := make([]list, h.partitions)
	for p := range lists {
		l := &lists[p]
		if err := h.read(ctx, p, &q, l); err != nil {
			return Page{}, fmt.Errorf("read events of partition %d: %w", p, err)
		}
		page.Unreadable += l.unreadable
	}
	page.merge(lists, q.Limit)
	return page, nil
}

// list is what was read of one partition.
type list struct {
	found      []place
	next       int64 // behind what was looked at
	more       bool  // before the partition's end
	unreadable int
}

type place struct {
	event  event.Event
	offset int64
}

// read reads what a page may have of a partition.
func (h *History) read(ctx context.Context, partition int, q *Query, l *list) error {
	cursor := h.cursor(partition, pageBytes)
	start, end, err := cursor.Range(ctx)
	if err != nil {
		return err
	}
	if l.next = start; len(q.After) == h.partitions {
		l.next = max(start, q.After[partition])
	} else if l.next, err = h.find(ctx, partition, start, end, q.Since.UnixNano()); err != nil {
		return err
	}
	cursor.MoveTo(l.next)
	for looked := 0; l.next < end && looked < maxLooked/h.partitions && len(l.found) < q.Limit; {
		b, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		for i := range b.Records {
			if looked++; len(l.found) == q.Limit {
				break
			}
			l.take(&b.Records[i], q)
		}
		if len(l.found) < q.Limit {
			l.next = max(l.next, b.Next)
		}
		if b.Next >= end || len(b.Records) == 0 && len(b.Skipped) == 0 {
			break
		}
	}
	l.more = l.next < end
	return nil
}

// take takes a record, if it is wanted.
func (l *list) take(r *kafkaio.Record, q *Query) {
	l.next = r.Offset + 1
	e, err := event.Decode(r.Value)
	switch {
	case err != nil:
		l.unreadable++
	case !e.Time.Before(q.Since) && (q.Keep == nil || q.Keep(&e)):
		l.found = append(l.found, place{e, r.Offset})
	}
}

// find returns the first offset whose message is not older than a time, in Unix nanoseconds. The times of messages rise: they are those
// at which they were written, which is not before what they tell.
func (h *History) find(ctx context.Context, partition int, start, end, since int64) (int64, error) {
	for start < end {
		middle := start + (end-start)/2
		cursor := h.cursor(partition, probeBytes)
		cursor.MoveTo(middle)
		b, err := cursor.Next(ctx)
		if err != nil {
			return 0, err
		}
		switch {
		case len(b.Records) == 0 || b.Records[0].Offset >= end:
			end = middle
		case b.Records[0].Time < since:
			start = b.Records[0].Offset + 1
		default:
			end = middle
		}
	}
	return start, nil
}

func (h *History) cursor(partition, bytes int) *kafkaio.Cursor {
	return kafkaio.NewCursor(h.log, kafkaio.CursorConfig{Topic: h.topic, Partition: partition, MaxBytes: bytes})
}

// merge puts the oldest events on the page.
func (p *Page) merge(lists []list, limit int) {
	p.Events, p.Next = []event.Event{}, make([]int64, len(lists))
	seen := make(map[string]bool)
	for len(p.Events) < limit {
		oldest := -1
		for i := range lists {
			if len(lists[i].found) > 0 && (oldest < 0 || lists[i].found[0].event.Time.Before(lists[oldest].found[0].event.Time)) {
				oldest = i
			}
		}
		if oldest < 0 {
			break
		}
		l := &lists[oldest]
		if e := l.found[0].event; !seen[e.ID] {
			seen[e.ID] = true
			p.Events = append(p.Events, e)
		}
		l.found = l.found[1:]
	}
	more := slices.ContainsFunc(lists, func(l list) bool { return l.more || len(l.found) > 0 })
	for i := range lists {
		if p.Next[i] = lists[i].next; len(lists[i].found) > 0 {
			p.Next[i] = lists[i].found[0].offset
		}
	}
	if !more {
		p.Next = nil
	}
}

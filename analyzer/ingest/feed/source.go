package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// ErrNotFlushed says that a source ended before all that was read of it was in Kafka. It is sent again by whoever reads
// the source next.
var ErrNotFlushed = errors.New("not all is acknowledged")

// Source is a log that is read in order. Its methods but Acked are for one goroutine. End it with Close.
type Source struct {
	feed      *Feed
	id        schemas.ProducerID
	name      string
	scanner   ingest.Scanner
	responses bool
	shift     uint // of offsets of records: see Record

	lines, entries, frames uint64
	rejected               [ingest.Reasons]uint64

	mu      sync.Mutex
	batches []*batch // guarded by mu: those not yet acknowledged, in order
	acked   int64    // guarded by mu
	read    int64    // guarded by mu
	end     int64    // guarded by mu: of the log, as far as the reader knows
	moved   chan struct{}
}

// batch is what was read of a source at a time.
type batch struct {
	source  *Source
	next    int64        // the position behind it
	broken  bool         // some of it was never queued: guarded by source.mu
	pending atomic.Int64 // parcels not yet acknowledged, and one until all are queued
}

// Source returns a new source. Position is where it is read from; id must be the same whenever the same log is read, and
// of no other log. Name is for people.
func (f *Feed) Source(id schemas.ProducerID, name string, position int64) *Source {
	s := &Source{
		feed: f, id: id, name: name, scanner: f.c.Format.Scanner(), responses: f.c.Format.Responses(),
		acked: position, read: position, end: position, moved: make(chan struct{}, 1),
	}
	f.mu.Lock()
	f.sources[s] = struct{}{}
	f.mu.Unlock()
	return s
}

// Head shows the source how its log begins, where it is not read from there: see ingest.Format.Headed.
func (s *Source) Head(text []byte) {
	var l ingest.Line
	for line := range bytes.Lines(text) {
		ingest.Scan(s.scanner, bytes.TrimSuffix(line, []byte("\n")), &l)
	}
}

// Text feeds whole lines. The first stands at offset; next is the position behind the last, which may be more than their
// length where something was skipped. It waits while Kafka is slow; the error is ctx's. Text may be overwritten afterwards.
func (s *Source) Text(ctx context.Context, text []byte, offset, next int64) error {
	return s.batch(ctx, next, func(p *press) { p.text(ctx, text, offset) })
}

// batch runs fill with a press and queues what comes of it.
func (s *Source) batch(ctx context.Context, next int64, fill func(*press)) error {
	var p *press
	select {
	case p = <-s.feed.presses:
	case <-ctx.Done():
		return fmt.Errorf("wait for room: %w", ctx.Err())
	}
	b := &batch{source: s, next: next}
	b.pending.Store(1)
	s.mu.Lock()
	s.batches = append(s.batches, b)
	s.read = next
	s.mu.Unlock()
	p.source, p.batch = s, b
	fill(p)
	err := p.flush(ctx)
	s.feed.presses <- p
	s.publish()
	if err == nil {
		b.release()
		return nil
	}
	s.mu.Lock()
	b.broken = true // and never done: pending keeps the one for the batch
	s.mu.Unlock()
	return err
}

// publish adds the source's counts to the feed's.
func (s *Source) publish() {
	c := &s.feed.count
	c.lines.Add(s.lines)
	c.entries.Add(s.entries)
	c.frames.Add(s.frames)
	for r := range s.rejected {
		if s.rejected[r] > 0 {
			c.rejected[r].Add(s.rejected[r])
			s.rejected[r] = 0
		}
	}
	s.lines, s.entries, s.frames = 0, 0, 0
}

// release notes that a parcel of b, or b itself, needs no more.
func (b *batch) release() {
	if b.pending.Add(-1) > 0 {
		return
	}
	s := b.source
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.batches) > 0 && s.batches[0].pending.Load() == 0 { // what is done behind one that is not has to wait
		s.acked = s.batches[0].next
		s.batches = s.batches[1:]
	}
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// Acked returns the position up to which everything is in Kafka. Any goroutine may ask.
func (s *Source) Acked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// End notes where the log ends now, for the lag that Stats tells.
func (s *Source) End(position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = position
}

// Close waits until all that was fed is acknowledged, but not longer than Config.Drain; the error is then ErrNotFlushed.
func (s *Source) Close() error {
	defer func() {
		s.feed.mu.Lock()
		delete(s.feed.sources, s)
		s.feed.mu.Unlock()
	}()
	give := time.NewTimer(s.feed.c.Drain)
	defer give.Stop()
	for {
		s.mu.Lock()
		done, broken := s.acked == s.read, len(s.batches) > 0 && s.batches[0].broken
		s.mu.Unlock()
		if done {
			return nil
		}
		if broken {
			return fmt.Errorf("%s: %w", s.name, ErrNotFlushed)
		}
		select {
		case <-s.moved:
		case <-give.C:
			return fmt.Errorf("%s: %w", s.name, ErrNotFlushed)
		}
	}
}

// shown returns an offset of an entry as it stands in the log.
func (s *Source) shown(offset int64) int64 { return offset >> s.shift }

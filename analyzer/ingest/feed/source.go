package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// ErrNotFlushed says that a source was closed before everything that was read from it was in Kafka. The next reader starts
// at Acked and sends the rest again.
var ErrNotFlushed = errors.New("not all is acknowledged")

// Source is a log that is read in order. All its methods except Acked and Wait are for one goroutine. Close it after use.
type Source struct {
	feed      *Feed
	id        schemas.ProducerID
	name      string
	number    uint64 // of the sources of this feed, in the order in which they were made
	scanner   ingest.Scanner
	responses bool
	holds     bool
	shift     uint // from an entry's offset to the log's own: lineBits for topics, 0 for files

	lines, entries, frames uint64
	rejected               [ingest.Reasons]uint64

	mu      sync.Mutex
	batches []*batch      // guarded by mu: not yet acknowledged, in order
	acked   int64         // guarded by mu: see Acked
	read    int64         // guarded by mu: the position behind the last batch
	end     int64         // guarded by mu: of the log, as the reader last reported it
	moved   chan struct{} // guarded by mu: closed, and replaced, when acked moves or a batch breaks
}

// batch is a piece of a source that was read at once.
type batch struct {
	source  *Source
	next    int64        // the position behind it
	broken  bool         // guarded by source.mu: a part of it was never queued
	pending atomic.Int64 // parcels not yet acknowledged, plus one until all are queued
}

// Source returns a new source, which is read from position on. The id must be the same whenever this log is read, and no
// other log may have it. The name is for people; several sources may have it.
func (f *Feed) Source(id schemas.ProducerID, name string, position int64) *Source {
	return f.source(f.c.Format, id, name, position)
}

// Records returns a new source of records of OpenTelemetry, as Source does: see ingest.Format.Records.
func (f *Feed) Records(id schemas.ProducerID, name string, position int64) *Source {
	return f.source(f.c.Format.Records(), id, name, position)
}

func (f *Feed) source(format *ingest.Format, id schemas.ProducerID, name string, position int64) *Source {
	s := &Source{
		feed: f, id: id, name: name, scanner: format.Scanner(), responses: format.Responses(), holds: format.Holds(),
		acked: position, read: position, end: position, moved: make(chan struct{}),
	}
	f.mu.Lock()
	f.made++
	s.number = f.made
	f.sources[s] = struct{}{}
	f.mu.Unlock()
	return s
}

// Head gives the source the beginning of its log, where reading starts further on: see ingest.Format.Headed.
func (s *Source) Head(text []byte) {
	var l ingest.Line
	for line := range bytes.Lines(text) {
		ingest.Scan(s.scanner, bytes.TrimSuffix(line, []byte("\n")), &l)
	}
}

// Text feeds whole lines. The first begins at offset, and next is the position behind the last; between them may be more
// than the length of text, where the reader skipped something. Text waits while Kafka is slow; its error is ctx's. The
// caller may overwrite text afterwards.
func (s *Source) Text(ctx context.Context, text []byte, offset, next int64) error {
	return s.batch(ctx, next, func(f *framer) { f.text(ctx, text, offset) })
}

// batch runs fill with a framer and queues the frames.
func (s *Source) batch(ctx context.Context, next int64, fill func(*framer)) error {
	var f *framer
	select {
	case f = <-s.feed.framers:
	case <-ctx.Done():
		return fmt.Errorf("wait for room: %w", ctx.Err())
	}
	b := &batch{source: s, next: next}
	b.pending.Store(1)
	s.mu.Lock()
	s.batches = append(s.batches, b)
	s.read = next
	s.mu.Unlock()
	f.source, f.batch = s, b
	fill(f)
	err := f.flush(ctx)
	s.feed.framers <- f
	s.publish()
	if err == nil {
		b.release()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.broken = true // it never completes: pending keeps the one for the batch
	s.notify()
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

// release subtracts one from what b waits for: a parcel was acknowledged, or all of b is queued.
func (b *batch) release() {
	if b.pending.Add(-1) > 0 {
		return
	}
	s := b.source
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.batches) > 0 && s.batches[0].pending.Load() == 0 { // a complete batch waits for those before it
		s.acked = s.batches[0].next
		s.batches = s.batches[1:]
	}
	s.notify()
}

// notify wakes those who wait. The caller holds s.mu.
func (s *Source) notify() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// Acked returns the position up to which everything is in Kafka. Any goroutine may call it.
func (s *Source) Acked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// End sets where the log ends now, for SourceStats.Lag.
func (s *Source) End(position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = position
}

// Wait waits until everything before position is acknowledged. It returns ErrNotFlushed if Text has queued a part only of what stands
// before, or if ctx ends first. Any goroutine may call it.
func (s *Source) Wait(ctx context.Context, position int64) error {
	for {
		s.mu.Lock()
		done, broken, moved := s.acked >= position, len(s.batches) > 0 && s.batches[0].broken, s.moved
		s.mu.Unlock()
		if done {
			return nil
		}
		if broken {
			return fmt.Errorf("%s: %w", s.name, ErrNotFlushed)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", s.name, ErrNotFlushed)
		}
	}
}

// Close waits until everything that was fed is acknowledged. After Config.Drain it returns ErrNotFlushed instead.
func (s *Source) Close() error {
	defer func() {
		s.feed.mu.Lock()
		delete(s.feed.sources, s)
		s.feed.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), s.feed.c.Drain)
	defer cancel()
	s.mu.Lock()
	read := s.read
	s.mu.Unlock()
	return s.Wait(ctx, read)
}

// logOffset returns the offset in the log that an entry's offset stands for.
func (s *Source) logOffset(offset int64) int64 { return offset >> s.shift }

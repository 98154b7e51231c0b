package feed

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// The room that one line may need in a frame: an arrival and a response for each caller, with strings of their own.
const (
	lineEntries = 2 * ingest.MaxCallers
	lineBytes   = lineEntries * (64 + schemas.MaxCallerKind + schemas.MaxCallerID + schemas.MaxResource)
)

// framer turns lines into frames. One batch at a time uses it.
type framer struct {
	feed     *Feed
	encoders []*schemas.FrameEncoder // by partition; empty between batches
	dirty    []int                   // the partitions whose encoders hold entries
	line     ingest.Line             // Lasting: encoders keep views of its strings until they are empty
	rejects  [][]byte
	rejected int // bytes of rejects

	source *Source
	batch  *batch
	err    error // of sending; the rest of the batch is dropped
}

func newFramer(feed *Feed) *framer {
	f := &framer{feed: feed, encoders: make([]*schemas.FrameEncoder, feed.c.Partitions), line: ingest.Line{Lasting: true}}
	for i := range f.encoders {
		f.encoders[i] = new(schemas.FrameEncoder)
		f.encoders[i].Reset(true)
	}
	return f
}

// text scans whole lines. The first one begins at offset in the source.
func (f *framer) text(ctx context.Context, text []byte, offset int64) {
	for len(text) > 0 && f.err == nil {
		line, skip := text, len(text)
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, skip = text[:i], i+1
		}
		f.scan(ctx, line, offset)
		text, offset = text[skip:], offset+int64(skip)
	}
}

// scan reads one line and adds its entries, or its reject.
func (f *framer) scan(ctx context.Context, line []byte, offset int64) {
	s, l := f.source, &f.line
	s.lines++
	switch r := ingest.Scan(s.scanner, line, l); {
	case r == ingest.OK:
		f.add(ctx, l, offset)
	case r.Rejected():
		f.refuse(ctx, r, offset, line)
	default:
		s.rejected[r]++
	}
}

// refuse counts a line that could not be read, shows it if it is one of the first, and adds its reject.
func (f *framer) refuse(ctx context.Context, r ingest.Reason, offset int64, line []byte) {
	s := f.source
	s.rejected[r]++
	if n := f.feed.shown.add(r, line); n > 0 {
		f.feed.c.Logger.Warn("cannot read a line", "reason", r.String(), "source", s.name, "offset", s.logOffset(offset), "bytes", len(line),
			"line", string(line[:min(len(line), ingest.MaxSample)]), "shown", fmt.Sprintf("%d of at most %d of this reason", n, ingest.MaxSamples))
	}
	f.reject(ctx, r.String(), offset, line)
}

// add adds the entries of a line. All entries for one partition go into one frame, so that no frame ends within a line.
func (f *framer) add(ctx context.Context, l *ingest.Line, offset int64) {
	var partitions [ingest.MaxCallers + 1]int // of each caller
	for i, id := range l.IDs {
		if id == "" {
			continue
		}
		partitions[i] = schemas.Partition(f.feed.c.Key.Hash(f.feed.kinds[i], id), len(f.encoders))
		switch enc := f.encoders[partitions[i]]; {
		case enc.Len() == 0:
			f.dirty = append(f.dirty, partitions[i])
		case enc.Len() > schemas.MaxFrameEntries-lineEntries, f.size(enc) > schemas.MaxFrame-lineBytes:
			f.cut(ctx, partitions[i])
			f.dirty = append(f.dirty, partitions[i])
		}
	}
	arrival := schemas.Entry{Time: l.Time, Resource: l.Resource, Count: 1, Blocked: l.Blocked, Arrived: l.Arrived, Declared: l.Declared, Offset: offset}
	response := arrival
	response.Time, response.Response, response.Status, response.Cost = l.End, true, l.Status, l.Cost
	if !f.source.responses {
		arrival.Arrived = 0
	}
	for i, id := range l.IDs {
		if id == "" {
			continue
		}
		if l.Part != ingest.Response {
			f.put(partitions[i], &arrival, i, id)
		}
		if l.Part != ingest.Arrival && f.source.responses {
			f.put(partitions[i], &response, i, id)
		}
	}
}

// size returns how many bytes the frame of an encoder has, or gets if an entry makes it one of version 2.
func (f *framer) size(enc *schemas.FrameEncoder) int {
	if f.source.holds {
		return enc.SizeHolding()
	}
	return enc.Size()
}

// put adds an entry for the caller of a kind, which is an index.
func (f *framer) put(partition int, e *schemas.Entry, kind int, id string) {
	e.Kind, e.ID = f.feed.kinds[kind], id
	if err := f.encoders[partition].Add(e); err != nil {
		panic(fmt.Sprintf("BUG: entry of a line refused: %v", err)) // the scanner keeps all bounds, and add made room
	}
	f.source.entries++
}

// cut sends the frame of one partition. The encoder is empty afterwards.
func (f *framer) cut(ctx context.Context, partition int) {
	enc := f.encoders[partition]
	if enc.Len() == 0 {
		return
	}
	head := schemas.Frame{
		Producer: f.source.id, Source: true, Flushed: f.feed.c.Now().UnixNano(), Partitions: uint32(len(f.encoders)),
		Fingerprint: f.feed.c.Key.Fingerprint(),
	}
	value, err := enc.AppendTo(make([]byte, 0, enc.Size()), &head)
	if err != nil {
		panic(fmt.Sprintf("BUG: frame refused: %v", err))
	}
	enc.Reset(true)
	f.source.frames++
	f.send(ctx, f.feed.senders[partition], [][]byte{value}, int64(len(value)))
}

// reject adds one line to the lines that could not be read.
func (f *framer) reject(ctx context.Context, reason string, offset int64, line []byte) {
	r := reject.New(f.feed.c.Now(), f.source.name, f.source.logOffset(offset), reason, line)
	b := r.Encode()
	if f.rejected+len(b) > maxParcel {
		f.cutRejects(ctx)
	}
	f.rejects, f.rejected = append(f.rejects, b), f.rejected+len(b)
}

func (f *framer) cutRejects(ctx context.Context) {
	if len(f.rejects) > 0 {
		f.send(ctx, f.feed.senders[len(f.encoders)], f.rejects, int64(f.rejected))
	}
	f.rejects, f.rejected = nil, 0
}

func (f *framer) send(ctx context.Context, to *sender, values [][]byte, size int64) {
	if f.err != nil {
		return
	}
	f.batch.pending.Add(1)
	if f.err = to.put(ctx, parcel{values: values, size: size, batch: f.batch}); f.err == nil {
		f.feed.count.bytes.Add(uint64(size))
	}
}

// flush sends what the framer still holds, and empties it for the next batch.
func (f *framer) flush(ctx context.Context) error {
	for _, partition := range f.dirty {
		f.cut(ctx, partition)
	}
	f.dirty = f.dirty[:0]
	f.cutRejects(ctx)
	err := f.err
	f.source, f.batch, f.err = nil, nil, nil
	f.line = ingest.Line{IDs: f.line.IDs[:0], Lasting: true} // frees the strings of this batch
	return err
}

// shown has the lines that were shown because they could not be read: the first of each reason, of all sources together.
type shown struct {
	full [ingest.Reasons]atomic.Bool // no lock for the lines that come later: clients choose how many there are

	mu      sync.Mutex
	samples ingest.Samples // guarded by mu
}

// add returns the number of a line among those to show for its reason, from 1; 0 if it is not to be shown.
func (s *shown) add(r ingest.Reason, line []byte) int {
	if s.full[r].Load() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.samples.Add(r, line)
	s.full[r].Store(s.samples.Full(r))
	return n
}

// Shippers put one line into a record, or several. The offset of an entry is the record's offset, shifted by lineBits, plus
// the number of the line in the record. So each line has an offset of its own.
const (
	lineBits = 16
	maxLines = 1 << lineBits // of a record; the rest is rejected
)

// records feeds what one fetch returned.
func (s *Source) records(ctx context.Context, b kafkaio.Batch) error {
	return s.batch(ctx, b.Next, func(f *framer) {
		for i := range b.Records {
			f.record(ctx, &b.Records[i])
		}
		for _, skip := range b.Skipped {
			f.skipped(ctx, skip)
		}
	})
}

// record scans the lines of one record.
func (f *framer) record(ctx context.Context, r *kafkaio.Record) {
	offset := r.Offset << lineBits
	text := bytes.TrimSuffix(r.Value, []byte("\n"))
	if len(text) == 0 {
		f.scan(ctx, nil, offset)
		return
	}
	for n := 0; len(text) > 0; n++ {
		if n == maxLines {
			f.source.lines++
			f.refuse(ctx, ingest.TooMany, offset, text)
			return
		}
		line, skip := text, len(text)
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, skip = text[:i], i+1
		}
		f.scan(ctx, line, offset+int64(n))
		text = text[skip:]
	}
}

// skipped reports records that could not be read. Transaction markers and offsets that compaction removed hold no lines.
// Records that the topic deleted before they were read are counted, and there is no line to reject.
func (f *framer) skipped(ctx context.Context, skip kafkaio.Skip) {
	n := uint64(skip.To - skip.From + 1) // > 0
	switch skip.Reason {
	case kafkaio.SkipControl, kafkaio.SkipGap:
		return
	case kafkaio.SkipLost:
		f.feed.count.lost.Add(n)
		f.feed.c.Logger.Error("records were deleted before they were read", "source", f.source.name, "from", skip.From, "to", skip.To, "records", n)
		return
	}
	f.feed.count.skip(string(skip.Reason), n)
	f.feed.c.Logger.Error("skipped records", "source", f.source.name, "from", skip.From, "to", skip.To, "records", n,
		"reason", skip.Reason, "error", skip.Err)
	text := fmt.Appendf(nil, "offsets %d to %d", skip.From, skip.To)
	if skip.Err != nil {
		text = fmt.Appendf(text, ": %v", skip.Err)
	}
	f.reject(ctx, "records "+string(skip.Reason), skip.From<<lineBits, text)
}

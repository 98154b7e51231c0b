package feed

import (
	"bytes"
	"context"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/schemas"
)

// What one line may need of a frame: an arrival and a response for each caller, with strings of their own.
const (
	lineEntries = 2 * ingest.MaxCallers
	lineBytes   = lineEntries * (64 + schemas.MaxCallerKind + schemas.MaxCallerID + schemas.MaxResource)
)

// press makes frames of lines. One batch uses it at a time.
type press struct {
	feed     *Feed
	encoders []*schemas.FrameEncoder // by partition; empty between batches
	dirty    []int                   // the partitions whose encoders have entries
	line     ingest.Line             // lasting: encoders keep views of it until they are empty
	entry    schemas.Entry
	rejects  [][]byte
	size     int // bytes of rejects

	source *Source
	batch  *batch
	err    error // of sending; what follows is given up
}

func newPress(f *Feed) *press {
	p := &press{feed: f, encoders: make([]*schemas.FrameEncoder, f.c.Partitions), line: ingest.Line{Lasting: true}}
	for i := range p.encoders {
		p.encoders[i] = new(schemas.FrameEncoder)
		p.encoders[i].Reset(true)
	}
	return p
}

// text scans whole lines, of which the first stands at offset of the source.
func (p *press) text(ctx context.Context, text []byte, offset int64) {
	for len(text) > 0 && p.err == nil {
		line, skip := text, len(text)
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, skip = text[:i], i+1
		}
		p.scan(ctx, line, offset)
		text, offset = text[skip:], offset+int64(skip)
	}
}

// scan reads one line and adds its entries, or its reject.
func (p *press) scan(ctx context.Context, line []byte, offset int64) {
	s, l := p.source, &p.line
	s.lines++
	switch r := ingest.Scan(s.scanner, line, l); {
	case r == ingest.OK:
		p.add(ctx, l, offset)
	case r.Rejected():
		s.rejected[r]++
		p.reject(ctx, r.String(), offset, line)
	default:
		s.rejected[r]++
	}
}

// add adds the entries of a line. Those for one partition share a frame: none is cut within a line.
func (p *press) add(ctx context.Context, l *ingest.Line, offset int64) {
	var at [ingest.MaxCallers + 1]int
	for i, id := range l.IDs {
		if id == "" {
			continue
		}
		at[i] = schemas.Partition(p.feed.c.Key.Hash(p.feed.kinds[i], id), len(p.encoders))
		switch enc := p.encoders[at[i]]; {
		case enc.Len() == 0:
			p.dirty = append(p.dirty, at[i])
		case enc.Len() > schemas.MaxFrameEntries-lineEntries, enc.Size() > schemas.MaxFrame-lineBytes:
			p.cut(ctx, at[i])
			p.dirty = append(p.dirty, at[i])
		}
	}
	e := &p.entry
	e.Time, e.Resource, e.Count, e.Blocked, e.Offset = l.Time, l.Resource, 1, l.Blocked, offset
	for i, id := range l.IDs {
		if id == "" {
			continue
		}
		e.Kind, e.ID, e.Response, e.Status, e.Cost = p.feed.kinds[i], id, false, 0, 0
		p.put(at[i])
		if p.source.responses {
			e.Response, e.Status, e.Cost = true, l.Status, l.Cost
			p.put(at[i])
		}
	}
}

func (p *press) put(partition int) {
	if err := p.encoders[partition].Add(&p.entry); err != nil {
		panic(fmt.Sprintf("BUG: entry of a line refused: %v", err)) // the scanner keeps all bounds, and there was room
	}
	p.source.entries++
}

// cut sends the frame of one partition. The encoder is empty afterwards.
func (p *press) cut(ctx context.Context, partition int) {
	enc := p.encoders[partition]
	if enc.Len() == 0 {
		return
	}
	head := schemas.Frame{
		Producer: p.source.id, Source: true, Flushed: p.feed.c.Now().UnixNano(), Partitions: uint32(len(p.encoders)),
		Fingerprint: p.feed.c.Key.Fingerprint(),
	}
	value, err := enc.AppendTo(make([]byte, 0, enc.Size()), &head)
	if err != nil {
		panic(fmt.Sprintf("BUG: frame refused: %v", err))
	}
	enc.Reset(true)
	p.source.frames++
	p.send(ctx, p.feed.lanes[partition], [][]byte{value}, int64(len(value)))
}

// reject adds one line to those that could not be read.
func (p *press) reject(ctx context.Context, reason string, offset int64, line []byte) {
	r := reject.New(p.feed.c.Now(), p.source.name, p.source.shown(offset), reason, line)
	b := r.Encode()
	if p.size+len(b) > maxParcel {
		p.cutRejects(ctx)
	}
	p.rejects, p.size = append(p.rejects, b), p.size+len(b)
}

func (p *press) cutRejects(ctx context.Context) {
	if len(p.rejects) > 0 {
		p.send(ctx, p.feed.lanes[len(p.encoders)], p.rejects, int64(p.size))
	}
	p.rejects, p.size = nil, 0
}

func (p *press) send(ctx context.Context, l *lane, values [][]byte, size int64) {
	if p.err != nil {
		return
	}
	p.batch.pending.Add(1)
	if p.err = l.put(ctx, parcel{values: values, size: size, batch: p.batch}); p.err == nil {
		p.feed.count.bytes.Add(uint64(size))
	}
}

// flush sends what the press holds and makes it ready for the next batch.
func (p *press) flush(ctx context.Context) error {
	for _, partition := range p.dirty {
		p.cut(ctx, partition)
	}
	p.dirty = p.dirty[:0]
	p.cutRejects(ctx)
	err := p.err
	p.source, p.batch, p.err = nil, nil, nil
	p.line = ingest.Line{IDs: p.line.IDs[:0], Lasting: true} // what the last batch made may go
	return err
}

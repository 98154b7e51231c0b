package feed

import (
	"bytes"
	"context"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Shippers send one line in a record, or several. The offset of an entry is the record's with the number of the line below
// it, so that each line has its own.
const (
	lineBits = 16
	maxLines = 1 << lineBits // of a record; what follows is refused
)

// records feeds what one fetch returned.
func (s *Source) records(ctx context.Context, b kafkaio.Batch) error {
	return s.batch(ctx, b.Next, func(p *press) {
		for i := range b.Records {
			p.record(ctx, &b.Records[i])
		}
		for _, skip := range b.Skipped {
			p.skipped(ctx, skip)
		}
	})
}

// record scans the lines of one record.
func (p *press) record(ctx context.Context, r *kafkaio.Record) {
	offset := r.Offset << lineBits
	text := bytes.TrimSuffix(r.Value, []byte("\n"))
	if len(text) == 0 {
		p.scan(ctx, nil, offset)
		return
	}
	for n := 0; len(text) > 0; n++ {
		if n == maxLines {
			p.source.rejected[ingest.TooMany]++
			p.source.lines++
			p.reject(ctx, ingest.TooMany.String(), offset, text)
			return
		}
		line, skip := text, len(text)
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, skip = text[:i], i+1
		}
		p.scan(ctx, line, offset+int64(n))
		text = text[skip:]
	}
}

// skipped notes records that could not be read. Those of a transaction's markers and of compaction are nobody's.
func (p *press) skipped(ctx context.Context, skip kafkaio.Skip) {
	if skip.Reason == kafkaio.SkipControl || skip.Reason == kafkaio.SkipGap {
		return
	}
	p.feed.count.skipped.Add(uint64(skip.To - skip.From + 1))
	text := ""
	if skip.Err != nil {
		text = skip.Err.Error()
	}
	p.reject(ctx, "records "+string(skip.Reason), skip.From<<lineBits, []byte(text))
}

package feed

import (
	"bytes"
	"context"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/store/kafkaio"
)

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

package kafkaiotest

import (
	"slices"
	"sort"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// partition is the content of a partition: records and gaps, in offset order, from start to end.
type partition struct {
	start, end int64
	records    []kafkaio.Record
	skips      []kafkaio.Skip
	corrupt    []Corruption // Fetches is how many still fail; less than 0 is all
	elections  []int64      // the end of the log when leaders 1, 2, … were elected
}

func (p *partition) clone() *partition {
	c := *p
	c.records, c.skips, c.corrupt, c.elections = slices.Clone(p.records), slices.Clone(p.skips), slices.Clone(p.corrupt), slices.Clone(p.elections)
	return &c
}

// append returns the offset of the first message.
func (p *partition) append(msgs []kafkaio.Message) int64 {
	base := p.end
	for _, m := range msgs {
		p.records = append(p.records, kafkaio.Record{
			Offset: p.end, Time: wholeMillis(m.Time), Key: slices.Clone(m.Key), Value: slices.Clone(m.Value),
		})
		p.end++
	}
	return base
}

// wholeMillis rounds a time up to a millisecond, as Produce does, or down if there is no later one.
func wholeMillis(t int64) int64 {
	const milli = 1_000_000
	down := t - t%milli
	if up := down + milli; t > down && up > t {
		return up
	}
	return down
}

// index returns where the records from an offset on begin.
func (p *partition) index(offset int64) int {
	return sort.Search(len(p.records), func(i int) bool { return p.records[i].Offset >= offset })
}

func (p *partition) trim(start int64) {
	p.records = slices.Clone(p.records[p.index(start):])
	p.start, p.end = start, max(start, p.end)
}

func (p *partition) cut(end int64) {
	p.records = slices.Clone(p.records[:p.index(end)])
	p.end = end
	for i := range p.elections {
		p.elections[i] = min(p.elections[i], end)
	}
	p.elections = append(p.elections, end)
	p.skips = slices.DeleteFunc(p.skips, func(s kafkaio.Skip) bool { return s.From >= end })
	for i := range p.skips {
		p.skips[i].To = min(p.skips[i].To, end-1)
	}
	p.corrupt = slices.DeleteFunc(p.corrupt, func(c Corruption) bool { return c.From >= end })
	for i := range p.corrupt {
		p.corrupt[i].To = min(p.corrupt[i].To, end-1)
	}
}

// epoch returns the epoch of the leader that appended the record at an offset.
func (p *partition) epoch(offset int64) int32 {
	return int32(sort.Search(len(p.elections), func(i int) bool { return p.elections[i] > offset }))
}

// broken returns the corruption that the batch of an offset has, or nil.
func (p *partition) broken(offset int64) *Corruption {
	for i := range p.corrupt {
		if c := &p.corrupt[i]; c.From <= offset && offset <= c.To && c.Fetches != 0 {
			return c
		}
	}
	return nil
}

func (p *partition) skipAt(offset int64) (kafkaio.Skip, bool) {
	for _, s := range p.skips {
		if s.From <= offset && offset <= s.To {
			s.From = offset
			return s, true
		}
	}
	return kafkaio.Skip{}, false
}

// fetch returns what a Client returns for r.
func (p *partition) fetch(r kafkaio.FetchRequest, maxRecords int) (kafkaio.Batch, error) {
	if r.Offset < p.start || r.Offset > p.end {
		return kafkaio.Batch{}, &kafkaio.RangeError{Offset: r.Offset, Start: p.start, End: p.end}
	}
	if c := p.broken(r.Offset); c != nil {
		c.Fetches--
		return kafkaio.Batch{}, &kafkaio.CorruptError{From: r.Offset, To: c.HeaderTo, Detail: "got a checksum that a test has made wrong"}
	}
	b := kafkaio.Batch{Next: r.Offset, HighWater: p.end, LogStart: p.start}
	room := r.MaxBytes
	if room <= 0 {
		room = kafkaio.DefaultMaxBytes
	}
	for i := p.index(r.Offset); b.Next < p.end && p.broken(b.Next) == nil; {
		if s, ok := p.skipAt(b.Next); ok {
			b.Skipped = append(b.Skipped, s)
			b.Next = s.To + 1
			continue
		}
		if i == len(p.records) || p.records[i].Offset > b.Next {
			to := p.gapEnd(b.Next, i)
			b.Skipped = append(b.Skipped, kafkaio.Skip{From: b.Next, To: to, Reason: kafkaio.SkipGap})
			b.Next = to + 1
			continue
		}
		record := p.records[i]
		room -= len(record.Key) + len(record.Value)
		if len(b.Records) > 0 && (room < 0 || maxRecords > 0 && len(b.Records) >= maxRecords) {
			break
		}
		b.Records = append(b.Records, record)
		b.Next = record.Offset + 1
		i++
	}
	if n := len(b.Records); n > 0 {
		b.FirstEpoch, b.LastEpoch = p.epoch(b.Records[0].Offset), p.epoch(b.Records[n-1].Offset)
	}
	return b, nil
}

// gapEnd returns the last offset of a gap before record i.
func (p *partition) gapEnd(offset int64, i int) int64 {
	end := p.end
	if i < len(p.records) {
		end = p.records[i].Offset
	}
	for _, s := range p.skips {
		if s.From > offset {
			end = min(end, s.From)
		}
	}
	return end - 1
}

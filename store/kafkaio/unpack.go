package kafkaio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Batch is what one Fetch returned: records in offset order, none below the offset asked for. Records, Next and Skipped are
// checked (see Fetch); HighWater and LogStart are the broker's word, which no checksum covers.
type Batch struct {
	Records   []Record
	Next      int64  // the offset to fetch next: everything below it is in Records or in Skipped
	HighWater int64  // the offset the next message will get; -1 where the broker did not say
	LogStart  int64  // the first offset that the partition still holds; -1 where the broker did not say
	Skipped   []Skip // in offset order; usually empty
}

// Skip is a stretch of offsets, From to To inclusive, that Fetch passed over.
type Skip struct {
	From, To int64
	Reason   SkipReason
	Err      error // what was wrong, where something was
}

// SkipReason says why offsets were passed over; it is also the label to count them under.
type SkipReason string

// Reasons of skips. SkipControl and SkipGap hold no records of anybody's; the others do.
const (
	SkipTooLarge      SkipReason = "too_large"     // over Config.MaxDecompressed once unpacked: Err is ErrDecompressedTooLarge
	SkipMalformed     SkipReason = "malformed"     // the checksum is right, the content is not: its producer wrote it so
	SkipCodec         SkipReason = "codec"         // does not unpack, or packed by an unknown codec
	SkipTransactional SkipReason = "transactional" // may have been aborted; floodgate writes none
	SkipFormat        SkipReason = "format"        // message formats 0 and 1, from before Kafka 0.11
	SkipControl       SkipReason = "control"       // a transaction's marker
	SkipGap           SkipReason = "gap"           // not in the log: compacted, or lost
)

// recordOverhead is what a Record costs beside its bytes, so that a cap on memory also caps many small records.
const recordOverhead = 64

// unpack appends to b the records in set, which holds whole batches and perhaps a part of one, from b.Next on. It moves
// b.Next behind what it has dealt with. Doubts are the base offsets of batches that don't begin where the last one
// ended, or are of an old format. The error is a *CorruptError if the first batch is corrupt (a later one ends the
// unpacking, and is the first one of the next fetch), or errPartial if there is no whole batch.
func (u *unpacker) unpack(b *Batch, set []byte) (doubts []int64, err error) {
	n, used, expected := 0, 0, b.Next
	for ; len(set) >= batchPrefix && used < u.limit; n++ {
		size := int64(int32(binary.BigEndian.Uint32(set[batchLengthAt:])))
		if size >= 0 && int64(len(set)-batchPrefix) < size {
			break // the broker cut the answer at MaxBytes
		}
		base := int64(binary.BigEndian.Uint64(set))
		if base != expected || len(set) > batchMagicAt && set[batchMagicAt] < 2 {
			doubts = append(doubts, base)
		}
		var took int
		switch {
		case size < batchMagicAt+1-batchPrefix:
			err = b.corrupt(b.Next, fmt.Sprintf("got a length of %d", size))
		case n > 0 && base < expected:
			err = b.corrupt(b.Next, fmt.Sprintf("got base offset %d, want %d", base, expected))
		default:
			took, expected, err = u.one(b, set[:batchPrefix+size])
			used += took
			set = set[batchPrefix+size:]
		}
		if err != nil && n > 0 {
			return doubts, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if n == 0 && len(set) > 0 {
		return nil, errPartial
	}
	return doubts, nil
}

// corrupt returns a *CorruptError about the batch at b.Next.
func (b *Batch) corrupt(to int64, detail string) error {
	return &CorruptError{From: b.Next, To: max(to, b.Next), Detail: detail}
}

// header is what unpacking needs of a batch's header.
type header struct {
	base, last        int64 // offsets
	attrs             int16
	count             int32
	baseTime, maxTime int64
}

// one deals with one whole batch. It returns the memory that its records take and the offset behind it.
func (u *unpacker) one(b *Batch, raw []byte) (used int, end int64, err error) {
	if magic := raw[batchMagicAt]; magic < 2 {
		last := int64(binary.BigEndian.Uint64(raw)) // of those formats, the offset of the last message
		if err := b.within(last); err != nil {
			return 0, 0, err
		}
		b.skip(last, SkipFormat, fmt.Errorf("message format %d", magic))
		return 0, last + 1, nil
	}
	h, err := b.header(raw)
	if err != nil {
		return 0, 0, err
	}
	if h.last < b.Next {
		return 0, h.last + 1, nil // all of it is below what was asked for
	}
	b.skip(h.base-1, SkipGap, nil)
	switch {
	case h.attrs&attrControl != 0:
		b.skip(h.last, SkipControl, nil)
	case h.attrs&attrTransactional != 0:
		b.skip(h.last, SkipTransactional, nil)
	default:
		kept := len(b.Records)
		used, err = u.records(b, h, raw[batchHeader:])
		if err != nil {
			clear(b.Records[kept:])
			b.Records = b.Records[:kept]
			b.skip(h.last, reasonOf(err), err)
			return 0, h.last + 1, nil
		}
		b.Next = h.last + 1
	}
	return used, h.last + 1, nil
}

// header checks what the checksum does not cover and then the checksum.
func (b *Batch) header(raw []byte) (header, error) {
	be := binary.BigEndian
	if magic := raw[batchMagicAt]; magic != 2 || len(raw) < batchHeader {
		return header{}, b.corrupt(b.Next, fmt.Sprintf("got %d bytes of format %d", len(raw), magic))
	}
	h := header{
		base:     int64(be.Uint64(raw)),
		attrs:    int16(be.Uint16(raw[batchAttrsAt:])),
		baseTime: int64(be.Uint64(raw[27:])),
		maxTime:  int64(be.Uint64(raw[35:])),
		count:    int32(be.Uint32(raw[57:])),
	}
	delta := int32(be.Uint32(raw[23:]))
	h.last = h.base + int64(delta)
	if h.base < 0 || delta < 0 || h.last < h.base {
		return header{}, b.corrupt(b.Next, fmt.Sprintf("got base offset %d and last delta %d", h.base, delta))
	}
	got, want := crc32.Checksum(raw[batchAttrsAt:], castagnoli()), be.Uint32(raw[batchCRCAt:])
	if got != want {
		return header{}, b.corrupt(h.last, fmt.Sprintf("got checksum %08x, want %08x", got, want))
	}
	return h, b.within(h.last)
}

// within refuses offsets that no consumer gets to see yet.
func (b *Batch) within(last int64) error {
	if last < 0 || b.HighWater >= 0 && last >= b.HighWater {
		return b.corrupt(b.Next, fmt.Sprintf("got offset %d, want under the high water mark %d", last, b.HighWater))
	}
	return nil
}

// skip passes over b.Next to last, if there is anything.
func (b *Batch) skip(last int64, reason SkipReason, err error) {
	if last < b.Next {
		return
	}
	b.Skipped = append(b.Skipped, Skip{From: b.Next, To: last, Reason: reason, Err: err})
	b.Next = last + 1
}

// reasonOf sorts the errors of records.
func reasonOf(err error) SkipReason {
	switch {
	case errors.Is(err, ErrDecompressedTooLarge):
		return SkipTooLarge
	case errors.Is(err, errCodec):
		return SkipCodec
	}
	return SkipMalformed
}

// records unpacks a batch's records from b.Next on into b.Records.
func (u *unpacker) records(b *Batch, h header, packed []byte) (used int, err error) {
	// A record takes 7 bytes or more, but only unpacked ones can be counted against that; the cap serves for both.
	if h.count < 0 || int64(h.count)*recordOverhead > int64(u.limit) {
		return 0, fmt.Errorf("%w: got %d records", ErrDecompressedTooLarge, h.count)
	}
	limit := u.limit - int(h.count)*recordOverhead
	body, err := u.decompress(int(h.attrs&attrCodec), packed, limit)
	if err != nil {
		return 0, err
	}
	p := recordParser{header: h, rest: body}
	if b.Records == nil {
		b.Records = make([]Record, 0, min(int(h.count), len(body)/7))
	}
	for range h.count {
		r, err := p.next()
		if err != nil {
			return 0, err
		}
		if r.Offset >= b.Next {
			b.Records = append(b.Records, r)
		}
	}
	if len(p.rest) != 0 {
		return 0, fmt.Errorf("%w: got %d bytes behind the last record", errRecord, len(p.rest))
	}
	return len(body) + int(h.count)*recordOverhead, nil
}

var errRecord = errors.New("malformed record")

// recordParser reads the records of one unpacked batch.
type recordParser struct {
	header
	rest []byte
	seen int64 // delta of the last record + 1
}

// next reads one record. Offsets must rise within the batch's own range.
func (p *recordParser) next() (Record, error) {
	size, n := binary.Varint(p.rest)
	if n <= 0 || size < 6 || size > int64(len(p.rest)-n) {
		return Record{}, fmt.Errorf("%w: got a length of %d in %d bytes", errRecord, size, len(p.rest))
	}
	f := fields{b: p.rest[n : n+int(size)]}
	p.rest = p.rest[n+int(size):]
	f.skip(1) // attributes: none are defined
	timeDelta, offsetDelta := f.varint(), f.varint()
	r := Record{Offset: p.base + offsetDelta, Time: nanos(p.baseTime + timeDelta), Key: f.nullable(), Value: f.nullable()}
	if f.bad { // what follows are headers, which nobody here reads
		return Record{}, fmt.Errorf("%w: cut short", errRecord)
	}
	if offsetDelta < p.seen || r.Offset > p.last {
		return Record{}, fmt.Errorf("%w: got offset delta %d, want %d to %d", errRecord, offsetDelta, p.seen, p.last-p.base)
	}
	p.seen = offsetDelta + 1
	if p.attrs&attrAppendTime != 0 {
		r.Time = nanos(p.maxTime)
	}
	return r, nil
}

// fields reads the fields of one record; bad says that one was out of bounds.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) skip(n int) {
	if n > len(f.b) {
		f.b, f.bad = nil, true
		return
	}
	f.b = f.b[n:]
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad = true
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) nullable() []byte {
	n := f.varint()
	if f.bad || n < 0 {
		return nil
	}
	if n > int64(len(f.b)) {
		f.bad = true
		return nil
	}
	v := f.b[:n:n]
	f.b = f.b[n:]
	return v
}

package kafkaio

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Batch is what one Fetch returned: records in offset order, none below the offset asked for. Records, Next and Skipped are
// checked (see Fetch); HighWater and LogStart are as the broker says; no checksum covers them.
type Batch struct {
	Records   []Record
	Next      int64  // the offset to fetch next: everything below it is in Records or in Skipped
	HighWater int64  // the offset the next message will get; -1 where the broker did not say
	LogStart  int64  // the first offset that the partition still holds; -1 where the broker did not say
	Skipped   []Skip // in offset order; usually empty

	// FirstEpoch and LastEpoch are the epochs of the leaders that appended the first and the last of Records; 0 if there are
	// none. No checksum covers them.
	FirstEpoch, LastEpoch int32

	open  *openBatch // the batch that Next is in the middle of; nil outside of the package
	drops uint64     // how often the Client had dropped its connections
}

// Skip is a stretch of offsets, From to To inclusive, that was passed over.
type Skip struct {
	From, To int64
	Reason   SkipReason
	Err      error // the cause; nil for SkipControl, SkipTransactional and SkipGap
}

// SkipReason says why offsets were passed over; it is also the label to count them under.
type SkipReason string

// Reasons of skips. Stretches of SkipControl and SkipGap hold no records of a producer; the others do. Fetch returns all
// but SkipLost and SkipCorrupt, which a Cursor adds.
const (
	SkipTooLarge      SkipReason = "too_large"     // a batch over 64 MiB (Err is ErrTooLarge), or ErrDecompressedTooLarge
	SkipMalformed     SkipReason = "malformed"     // the checksum is right, but the content is not: the producer wrote it wrong
	SkipCodec         SkipReason = "codec"         // does not unpack, or packed by an unknown codec
	SkipTransactional SkipReason = "transactional" // may have been aborted; floodgate writes none
	SkipFormat        SkipReason = "format"        // message formats 0 and 1, from before Kafka 0.11
	SkipControl       SkipReason = "control"       // a transaction's marker
	SkipGap           SkipReason = "gap"           // not in the log: compacted, or lost
	SkipLost          SkipReason = "lost"          // removed from the log's beginning before a Cursor came to it (Err is a *RangeError)
	SkipCorrupt       SkipReason = "corrupt"       // fetched as often as CursorConfig.CorruptTries says (Err is a *CorruptError)
)

// unpack appends to b the records in set, which holds whole batches and perhaps a part of one, from b.Next on. It moves
// b.Next behind the records that it has unpacked or skipped. It ends at a batch of which it unpacks only a piece: that
// batch is in b.open. Doubts are the base offsets of batches that do not begin where the one before ended, or have an old
// format. The error is a *CorruptError if the first batch is corrupt (a later one ends the unpacking, and is the first one
// of the next fetch), errLong if the first one is longer than maxBatch, or errPartial if there is no whole batch.
func (u *unpacker) unpack(b *Batch, set []byte) (doubts []int64, err error) {
	n, used, expected := 0, 0, b.Next
	for ; len(set) >= batchPrefix && used < u.limit && b.open == nil; n++ {
		size := int64(int32(binary.BigEndian.Uint32(set[batchLengthAt:])))
		if batchPrefix+size > maxBatch {
			if n == 0 {
				return nil, errLong
			}
			break
		}
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
	epoch             int32 // of the leader that appended it
	attrs             int16
	count             int32
	baseTime, maxTime int64
}

// one unpacks or skips one whole batch. It returns the memory that its records take, and the offset behind it.
func (u *unpacker) one(b *Batch, raw []byte) (used int, end int64, err error) {
	if magic := raw[batchMagicAt]; magic < 2 {
		last := int64(binary.BigEndian.Uint64(raw)) // in these formats it is the offset of the last message
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
		return 0, h.last + 1, nil // all of it is below the requested offset
	}
	b.skip(h.base-1, SkipGap, nil)
	switch {
	case h.attrs&attrControl != 0:
		b.skip(h.last, SkipControl, nil)
	case h.attrs&attrTransactional != 0:
		b.skip(h.last, SkipTransactional, nil)
	default:
		o, budget := u.openBatch(h, raw[batchHeader:])
		if used = o.fill(b, budget); o.left > 0 {
			b.open = o
		}
	}
	return used, h.last + 1, nil
}

// header checks the fields that the checksum does not cover, and then the checksum.
func (b *Batch) header(raw []byte) (header, error) {
	h, err := b.parseHeader(raw)
	if err != nil {
		return header{}, err
	}
	got, want := crc32.Checksum(raw[batchAttrsAt:], castagnoli()), binary.BigEndian.Uint32(raw[batchCRCAt:])
	if got != want {
		return header{}, b.corrupt(h.last, fmt.Sprintf("got checksum %08x, want %08x", got, want))
	}
	return h, b.within(h.last)
}

// parseHeader reads a header from the start of raw.
func (b *Batch) parseHeader(raw []byte) (header, error) {
	be := binary.BigEndian
	if magic := raw[batchMagicAt]; magic != 2 || len(raw) < batchHeader {
		return header{}, b.corrupt(b.Next, fmt.Sprintf("got %d bytes of format %d", len(raw), magic))
	}
	h := header{
		base:     int64(be.Uint64(raw)),
		epoch:    int32(be.Uint32(raw[batchEpochAt:])),
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
	return h, nil
}

// within refuses offsets at or above the high water mark, which consumers cannot see yet.
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

// longBatch is the header of a batch over maxBatch. The batch itself is not read, so its checksum cannot be verified: two
// fetches must agree on the whole header. The zero value means no such batch.
type longBatch struct {
	base, last int64 // offsets
	size       int64 // bytes, with the header
	records    int64
	crc        uint32
	format     byte
}

// String says which batch it is.
func (l longBatch) String() string {
	return fmt.Sprintf("a batch of %d bytes, format %d, offsets %d to %d, %d records, checksum %08x",
		l.size, l.format, l.base, l.last, l.records, l.crc)
}

// passOver moves b.Next behind a batch that is too long to be read; set holds its beginning. It reports exactly the offsets
// of that batch as skipped. The error is a *CorruptError if the header contradicts itself.
func (b *Batch) passOver(set []byte) (longBatch, error) {
	if len(set) <= batchMagicAt {
		return longBatch{}, fmt.Errorf("%w: got %d bytes of the batch at offset %d, want its header", errWrongAnswer, len(set), b.Next)
	}
	l := longBatch{
		base: int64(binary.BigEndian.Uint64(set)), format: set[batchMagicAt],
		size: batchPrefix + int64(int32(binary.BigEndian.Uint32(set[batchLengthAt:]))),
	}
	l.last, l.records = l.base, 1 // formats 0 and 1: the offset is the last message's
	if l.format >= 2 {
		if len(set) < batchHeader {
			return longBatch{}, fmt.Errorf("%w: got %d bytes of the batch at offset %d, want its header", errWrongAnswer, len(set), b.Next)
		}
		h, err := b.parseHeader(set)
		if err != nil {
			return longBatch{}, err
		}
		l.last, l.records, l.crc = h.last, int64(h.count), binary.BigEndian.Uint32(set[batchCRCAt:])
		// Producers number records one by one. A header that says otherwise is damaged, or the topic is compacted.
		if l.records != h.last-h.base+1 {
			return longBatch{}, b.corrupt(h.last, fmt.Sprintf("got %d records at offsets %d to %d", l.records, h.base, h.last))
		}
	}
	if l.last < b.Next {
		return longBatch{}, b.corrupt(b.Next, fmt.Sprintf("got %v", l))
	}
	if err := b.within(l.last); err != nil {
		return longBatch{}, err
	}
	if l.format >= 2 {
		b.skip(l.base-1, SkipGap, nil)
	}
	b.skip(l.last, SkipTooLarge, fmt.Errorf("%w: got %v; want up to %d bytes", ErrTooLarge, l, maxBatch))
	return l, nil
}

package kafkaio

import (
	"encoding/binary"
	"fmt"
)

// longBatch is the header of a batch over MaxBatch. The batch itself is not read, so its checksum cannot be verified: two
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
	b.skip(l.last, SkipTooLarge, fmt.Errorf("%w: got %v; want up to %d bytes", ErrTooLarge, l, MaxBatch))
	return l, nil
}

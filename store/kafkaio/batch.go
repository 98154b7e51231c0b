package kafkaio

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// The record batch of Kafka's protocol (magic 2), as https://kafka.apache.org/documentation/#recordbatch lays it out:
//
//	 0 base offset 8 │ 8 length 4 │ 12 leader epoch 4 │ 16 magic 1 │ 17 crc32c 4 │ 21 attributes 2 │ 23 last offset delta 4
//	27 base time 8 │ 35 max time 8 │ 43 producer id 8 │ 51 producer epoch 2 │ 53 base sequence 4 │ 57 count 4 │ 61 records
//
// The length counts what follows it; the checksum covers everything from the attributes on. Numbers are big-endian, those
// within records zigzag varints.
const (
	batchLengthAt = 8
	batchEpochAt  = 12
	batchMagicAt  = 16
	batchCRCAt    = 17
	batchAttrsAt  = 21
	batchHeader   = 61
	batchPrefix   = 12 // base offset and length
	batchMinBody  = batchHeader - batchPrefix

	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// Message is what Produce appends. Time is in Unix nanoseconds; Kafka keeps milliseconds, and Produce rounds up, so that
// the time a reader sees is never before Time. A nil key or value is null, an empty one is empty.
type Message struct {
	Time       int64
	Key, Value []byte
}

// Record is what Fetch returns. Time is in Unix nanoseconds, a whole number of milliseconds: the producer's, or the
// broker's in topics with append time. Key and Value alias the memory of their Batch and may be kept.
type Record struct {
	Offset, Time int64
	Key, Value   []byte
}

// castagnoli returns the table of crc32c; the standard library makes it once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

const nanosPerMilli = 1_000_000

// millis converts Unix nanoseconds to Kafka's milliseconds, rounding up.
func millis(ns int64) int64 {
	ms := ns / nanosPerMilli
	if ns%nanosPerMilli > 0 {
		ms++
	}
	return ms
}

// nanos converts Kafka's milliseconds to Unix nanoseconds, saturating: the wire may hold any number.
func nanos(ms int64) int64 {
	switch {
	case ms > math.MaxInt64/nanosPerMilli:
		return math.MaxInt64
	case ms < math.MinInt64/nanosPerMilli:
		return math.MinInt64
	}
	return ms * nanosPerMilli
}

// appendBatch appends msgs to dst as one uncompressed record batch, the way producers send it.
func appendBatch(dst []byte, msgs []Message) []byte {
	base := millis(msgs[0].Time)
	newest := base
	start := len(dst)
	dst = append(dst, make([]byte, batchHeader)...)
	for i := range msgs {
		m := &msgs[i]
		ms := millis(m.Time)
		newest = max(newest, ms)
		size := 1 + varintSize(ms-base) + varintSize(int64(i)) + nullableSize(m.Key) + nullableSize(m.Value) + 1
		dst = binary.AppendVarint(dst, int64(size))
		dst = append(dst, 0) // attributes: none are defined
		dst = binary.AppendVarint(dst, ms-base)
		dst = binary.AppendVarint(dst, int64(i))
		dst = appendNullable(dst, m.Key)
		dst = appendNullable(dst, m.Value)
		dst = append(dst, 0) // no headers
	}
	h := batchFields{lastDelta: int32(len(msgs) - 1), baseTime: base, maxTime: newest, count: int32(len(msgs))}
	h.put(dst[start:])
	return dst
}

// batchFields are the fields of a batch's header that differ between batches. The others say: no leader epoch yet, no
// idempotent producer.
type batchFields struct {
	attrs             int16
	lastDelta, count  int32
	baseTime, maxTime int64
}

// put fills in the header of b, which is the whole batch, and its checksum.
func (f batchFields) put(b []byte) {
	be := binary.BigEndian
	be.PutUint64(b[0:], 0)
	be.PutUint32(b[batchLengthAt:], uint32(len(b)-batchPrefix))
	be.PutUint32(b[batchEpochAt:], math.MaxUint32)
	b[batchMagicAt] = 2
	be.PutUint16(b[batchAttrsAt:], uint16(f.attrs))
	be.PutUint32(b[23:], uint32(f.lastDelta))
	be.PutUint64(b[27:], uint64(f.baseTime))
	be.PutUint64(b[35:], uint64(f.maxTime))
	be.PutUint64(b[43:], math.MaxUint64)
	be.PutUint16(b[51:], math.MaxUint16)
	be.PutUint32(b[53:], math.MaxUint32)
	be.PutUint32(b[57:], uint32(f.count))
	be.PutUint32(b[batchCRCAt:], crc32.Checksum(b[batchAttrsAt:], castagnoli()))
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func nullableSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

// varintSize returns how many bytes the zigzag varint of v takes.
func varintSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}

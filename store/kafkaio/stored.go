package kafkaio

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// BatchHeaderBytes is the length of the header of a record batch.
const BatchHeaderBytes = batchHeader

// MaxMessage is how many bytes the messages of one batch may have where a topic does not say it: Kafka's default of max.message.bytes.
const MaxMessage = 1048588

// AppendBatch appends msgs, at least one, to dst as the record batch that a broker stores: uncompressed, at offset base.
func AppendBatch(dst []byte, base int64, msgs []Message) []byte {
	start := len(dst)
	dst = appendBatch(dst, msgs)
	binary.BigEndian.PutUint64(dst[start:], uint64(base)) // the checksum covers neither offset nor epoch
	binary.BigEndian.PutUint32(dst[start+batchEpochAt:], 0)
	return dst
}

// StoredBatch is where a stored record batch begins and ends, as its header says.
type StoredBatch struct {
	Base, Last int64 // offsets
	Bytes      int64 // with the header
	Checksum   uint32
}

// ReadBatchHeader reads the header at the start of b, which has BatchHeaderBytes at least. No checksum proves it. The error says what
// no broker would have stored.
func ReadBatchHeader(b []byte) (StoredBatch, error) {
	var none Batch
	h, err := none.parseHeader(b)
	if err != nil {
		return StoredBatch{}, err
	}
	bytes := batchPrefix + int64(int32(binary.BigEndian.Uint32(b[batchLengthAt:])))
	if bytes < batchHeader || bytes > maxBatch {
		return StoredBatch{}, fmt.Errorf("%w: got a batch of %d bytes", ErrCorrupt, bytes)
	}
	return StoredBatch{Base: h.base, Last: h.last, Bytes: bytes, Checksum: binary.BigEndian.Uint32(b[batchCRCAt:])}, nil
}

// UpdateChecksum adds the bytes of a record batch from byte at on to its checksum, which is 0 before the first of them.
func UpdateChecksum(sum uint32, b []byte, at int64) uint32 {
	return crc32.Update(sum, castagnoli(), b[min(max(batchAttrsAt-at, 0), int64(len(b))):])
}

// Unpacker turns stored record batches into records, as Client.Fetch does, and in as little memory. Its methods are safe for concurrent
// use. Make one with NewUnpacker.
type Unpacker struct{ *unpacker }

// NewUnpacker returns an Unpacker that takes what Config.MaxDecompressed takes by default.
func NewUnpacker() Unpacker { return Unpacker{newUnpacker(defaultMaxDecompressed)} }

// Unpack appends the records of set to b, from b.Next on. Set begins with a whole batch, and what follows need not be whole. It ends before a
// batch that is corrupt. The error is a *CorruptError if that is the first one.
func (u Unpacker) Unpack(b *Batch, set []byte) error {
	_, err := u.unpack(b, set)
	b.open = nil // a batch of which only a piece was unpacked is read from its file again
	return err
}

// Close frees what the Unpacker keeps.
func (u Unpacker) Close() { u.close() }

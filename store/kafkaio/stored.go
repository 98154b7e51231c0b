package kafkaio

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// BatchHeaderBytes is the length of the header of a record batch.
const BatchHeaderBytes = batchHeader

// MaxMessage is how many bytes the messages of one batch may have where a topic does not say it: Kafka's default of max.message.bytes.
const MaxMessage = 1048588

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

// SetBase gives a record batch the offset of its first record. No checksum covers it.
func SetBase(batch []byte, base int64) { binary.BigEndian.PutUint64(batch, uint64(base)) }

// UpdateChecksum adds the bytes of a record batch from byte at on to its checksum, which is 0 before the first of them.
func UpdateChecksum(sum uint32, b []byte, at int64) uint32 {
	return crc32.Update(sum, castagnoli(), b[min(max(batchAttrsAt-at, 0), int64(len(b))):])
}

// BatchCodec makes record batches as brokers store them, and reads them as Client.Fetch does, in as little memory. Its methods are safe for
// concurrent use. Make one with NewBatchCodec.
type BatchCodec struct {
	unpacker *unpacker
	zstd     *zstd.Encoder
	scratch  sync.Pool // of *[]byte
}

const (
	packFrom   = 1 << 10   // bytes of records from which on they are packed
	packWindow = 256 << 10 // bytes: more is kept in memory for each batch that is packed at a time
)

// NewBatchCodec returns a BatchCodec that takes what Config.MaxDecompressed takes by default.
func NewBatchCodec() *BatchCodec {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(packWindow), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("BUG: " + err.Error()) // the options are constants
	}
	return &BatchCodec{unpacker: newUnpacker(defaultMaxDecompressed), zstd: z}
}

// Append appends msgs, at least one, to dst as a record batch at offset 0. Records of some length are packed by zstd: frames of requests take a
// quarter of the room then.
func (c *BatchCodec) Append(dst []byte, msgs []Message) []byte {
	start := len(dst)
	dst = appendBatch(dst, msgs)
	binary.BigEndian.PutUint32(dst[start+batchEpochAt:], 0) // the checksum does not cover it
	records := dst[start+batchHeader:]
	if len(records) < packFrom {
		return dst
	}
	buffer, _ := c.scratch.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	defer c.scratch.Put(buffer)
	*buffer = c.zstd.EncodeAll(records, (*buffer)[:0])
	if len(*buffer) >= len(records) {
		return dst
	}
	dst = dst[:start+batchHeader+copy(records, *buffer)]
	batch, be := dst[start:], binary.BigEndian
	be.PutUint32(batch[batchLengthAt:], uint32(len(batch)-batchPrefix))
	be.PutUint16(batch[batchAttrsAt:], codecZstd)
	be.PutUint32(batch[batchCRCAt:], crc32.Checksum(batch[batchAttrsAt:], castagnoli()))
	return dst
}

// Unpack appends the records of set to b, from b.Next on. Set begins with a whole batch, and what follows need not be whole. It ends before a
// batch that is corrupt. The error is a *CorruptError if that is the first one.
func (c *BatchCodec) Unpack(b *Batch, set []byte) error {
	_, err := c.unpacker.unpack(b, set)
	b.open = nil // a batch of which only a piece was unpacked is read from its file again
	return err
}

// Close frees what the BatchCodec keeps.
func (c *BatchCodec) Close() {
	c.unpacker.close()
	_ = c.zstd.Close() // it has no output
}

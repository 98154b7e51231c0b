package schemas

import "errors"

// Bounds on frames. No number from the wire decides how much is allocated before it was compared with the bytes that are there.
const (
	MaxFrame        = 256 << 10 // bytes
	MaxFrameEntries = 8192
)

// Errors of Frame.Decode. Test with errors.Is; Reason turns them into metric labels.
var (
	ErrFrameShort   = errors.New("frame cut short")
	ErrFrameMagic   = errors.New("not a frame")
	ErrFrameVersion = errors.New("unknown frame version")
	ErrFrameCRC     = errors.New("frame checksum differs")
	ErrFrameBounds  = errors.New("frame exceeds a bound")
	ErrFrameEntry   = errors.New("bad entry in frame")
)

// ProducerID names a producer (16 random bytes per process start) or, in source frames, a source.
type ProducerID [16]byte

// Frame is one Kafka message of the requests topic: entries of one producer for one partition.
// The zero value is an empty frame.
type Frame struct {
	Producer    ProducerID
	Source      bool   // Producer is a source id, entries carry Offset, and Seq is 0
	Seq         uint64 // per producer and partition, starting at 1, +1 each
	Flushed     int64  // Unix nanoseconds on the producer's clock
	Partitions  uint32 // P, as the producer sees it
	Fingerprint uint64 // of the partition key
	Entries     []Entry
}

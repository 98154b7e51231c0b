package schemas

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

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

// Migrated reports whether the value of the first record of a partition says that all counts so far were brought from another log: it is a
// frame without entries. Flushed is their log time. No recorder and no source of lines sends such a frame.
func Migrated(value []byte) (logTime int64, is bool) {
	var f Frame
	if f.Decode(value) != nil || f.Source || len(f.Entries) > 0 {
		return 0, false
	}
	return f.Flushed, true
}

// Versions of frames. The entries of version 2 also have Arrived and Declared. An encoder writes version 1 where no entry has any.
const (
	frameVersionPlain = 1
	frameVersionHolds = 2

	// FrameVersion is the highest version that this package reads.
	FrameVersion = frameVersionHolds
)

// FrameVersionOf returns the version of a frame, also of one that cannot be decoded; 0 if b is no frame.
func FrameVersionOf(b []byte) uint32 {
	if len(b) < frameCRCAt || string(b[:len(frameMagic)]) != frameMagic {
		return 0
	}
	return uint32(binary.LittleEndian.Uint16(b[frameVersionAt:]))
}

// The layout of FRAME.md: where the numbers are.
const (
	frameMagic = "fg"

	frameVersionAt     = 2
	frameCRCAt         = 4
	frameProducerAt    = 8
	frameSeqAt         = 24
	frameFlushedAt     = 32
	frameFingerprintAt = 40
	framePartitionsAt  = 48
	frameTextAt        = 52 // bytes of all strings together
	frameStringsAt     = 56
	frameEntriesAt     = 58
	frameFlagsAt       = 60
	frameReservedAt    = 61
	frameHeader        = 64 // bytes

	frameOffset      = 4  // bytes of one string offset; there is one more of them than strings
	frameEntry       = 32 // bytes of an entry
	frameSourceEntry = 8  // more bytes of an entry of a source frame: its source offset
	frameHoldsEntry  = 16 // more bytes of an entry of version 2, after that

	frameFlagSource = 1 << 0

	entryTimeAt     = 0
	entryCostAt     = 8
	entryCountAt    = 16
	entryIDAt       = 20
	entryResourceAt = 22
	entryKindAt     = 24
	entryStatusAt   = 26
	entryFlagsAt    = 28
	entryReservedAt = 29
	entryOffsetAt   = 32

	entryArrivedAt  = 0 // of the bytes that version 2 adds
	entryDeclaredAt = 8

	entryFlagBlocked  = 1 << 0
	entryFlagResponse = 1 << 1
	entryFlagEarly    = 1 << 2 // only with entryFlagBlocked
	entryFlags        = entryFlagBlocked | entryFlagResponse | entryFlagEarly
)

// flagSet is a set of values that the flags of an entry may have: value v is in it if bit v is set.
type flagSet uint32

// allowedFlags is which flags go together in an entry.
const allowedFlags flagSet = 1 | 1<<entryFlagBlocked | 1<<entryFlagResponse | 1<<(entryFlagBlocked|entryFlagResponse) |
	1<<(entryFlagBlocked|entryFlagEarly) | 1<<entryFlags

// has reports whether flags, and the reserved bytes above them, are in the set.
func (s flagSet) has(flags uint32) bool { return s>>flags&1 != 0 }

// frameCRC is the CRC-32C (Castagnoli) of everything after the checksum. The magic and the version before it have but
// one right value.
func frameCRC(b []byte) uint32 {
	return crc32.Checksum(b[frameCRCAt+4:], crc32.MakeTable(crc32.Castagnoli))
}

// stride returns the bytes of one entry, and where those begin that version 2 adds.
func stride(source, holds bool) (size, holdsAt int) {
	size = frameEntry
	if source {
		size += frameSourceEntry
	}
	holdsAt = size
	if holds {
		size += frameHoldsEntry
	}
	return size, holdsAt
}

package schemas

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Decode reads a frame, which is all of b, as FRAME.md lays it out. It reuses f.Entries. It makes one copy of the frame's
// strings, which all entries share: b may be reused, and a caller that keeps a string for long should clone it.
// The error wraps one of the ErrFrame errors; f is then an empty frame.
//
// Decode checks every bound of FRAME.md, and every number before it uses it. The caller has to judge whether the times, the
// partition and the sequence number make sense.
func (f *Frame) Decode(b []byte) error {
	f.Entries = f.Entries[:0]
	if err := f.decode(b); err != nil {
		*f = Frame{Entries: f.Entries[:0]}
		return err
	}
	return nil
}

func (f *Frame) decode(b []byte) error {
	parts, err := splitFrame(b)
	if err != nil {
		return err
	}
	*f = Frame{
		Producer:    ProducerID(b[frameProducerAt:]),
		Source:      parts.source,
		Seq:         binary.LittleEndian.Uint64(b[frameSeqAt:]),
		Flushed:     int64(binary.LittleEndian.Uint64(b[frameFlushedAt:])),
		Partitions:  binary.LittleEndian.Uint32(b[framePartitionsAt:]),
		Fingerprint: binary.LittleEndian.Uint64(b[frameFingerprintAt:]),
		Entries:     f.Entries,
	}
	if err := f.validateSeq(); err != nil {
		return err
	}
	f.Entries = slices.Grow(f.Entries, parts.count)[:parts.count]
	return parts.decodeEntries(f.Entries)
}

// validateSeq reports whether the sequence number fits the kind of frame.
func (f *Frame) validateSeq() error {
	if f.Source != (f.Seq == 0) {
		return fmt.Errorf("%w: got sequence number %d, source %v; want 0 in source frames and 1 or more elsewhere",
			ErrFrameBounds, f.Seq, f.Source)
	}
	return nil
}

// frameParts are the sections of a frame, cut to size, and its checked counts.
type frameParts struct {
	offsets []byte // strings+1 offsets into text, rising
	strings int
	text    []byte
	entries []byte // count entries
	count   int
	source  bool
}

// splitFrame checks the header, the checksum, and that the sections fill b exactly.
func splitFrame(b []byte) (frameParts, error) {
	var p frameParts
	switch {
	case len(b) < frameHeader:
		return p, fmt.Errorf("%w: got %d bytes, want %d for the header", ErrFrameShort, len(b), frameHeader)
	case string(b[:len(frameMagic)]) != frameMagic:
		return p, fmt.Errorf("%w: got %q, want %q", ErrFrameMagic, b[:len(frameMagic)], frameMagic)
	case binary.LittleEndian.Uint16(b[frameVersionAt:]) != frameVersion:
		return p, fmt.Errorf("%w: got %d, want %d", ErrFrameVersion, binary.LittleEndian.Uint16(b[frameVersionAt:]), frameVersion)
	case len(b) > MaxFrame:
		return p, fmt.Errorf("%w: got %d bytes, want at most %d", ErrFrameBounds, len(b), MaxFrame)
	}
	p.source = b[frameFlagsAt]&frameFlagSource != 0
	p.strings = int(binary.LittleEndian.Uint16(b[frameStringsAt:]))
	p.count = int(binary.LittleEndian.Uint16(b[frameEntriesAt:]))
	textAt := frameHeader + (p.strings+1)*frameOffset
	entriesAt := uint64(textAt) + uint64(binary.LittleEndian.Uint32(b[frameTextAt:]))
	size := entriesAt + uint64(p.count*stride(p.source))
	switch {
	case uint64(len(b)) < size:
		return p, fmt.Errorf("%w: got %d bytes, want %d", ErrFrameShort, len(b), size)
	case binary.LittleEndian.Uint32(b[frameCRCAt:]) != frameCRC(b):
		return p, ErrFrameCRC
	case uint64(len(b)) > size:
		return p, fmt.Errorf("%w: got %d bytes, want %d", ErrFrameBounds, len(b), size)
	case p.count > MaxFrameEntries:
		return p, fmt.Errorf("%w: got %d entries, want at most %d", ErrFrameBounds, p.count, MaxFrameEntries)
	case b[frameFlagsAt]&^frameFlagSource != 0 || string(b[frameReservedAt:frameHeader]) != "\x00\x00\x00":
		return p, fmt.Errorf("%w: got flags or reserved bytes %x, want at most the source flag", ErrFrameBounds, b[frameFlagsAt:frameHeader])
	}
	p.offsets, p.text, p.entries = b[frameHeader:textAt], b[textAt:entriesAt], b[entriesAt:]
	return p, p.validateOffsets()
}

// validateOffsets reports whether the string offsets rise from 0 to the end of the text, so that any two neighbours cut
// a string out of it.
func (p *frameParts) validateOffsets() error {
	last := uint32(0)
	for i := 0; i < len(p.offsets); i += frameOffset {
		at := binary.LittleEndian.Uint32(p.offsets[i:])
		if at < last || i == 0 && at != 0 {
			return fmt.Errorf("%w: got offset %d of string %d after %d", ErrFrameBounds, at, i/frameOffset, last)
		}
		last = at
	}
	if int(last) != len(p.text) {
		return fmt.Errorf("%w: strings end at %d, want %d", ErrFrameBounds, last, len(p.text))
	}
	return nil
}

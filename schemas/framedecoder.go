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
	holds   bool // version 2
}

// splitFrame checks the header, the checksum, and that the sections fill b exactly.
func splitFrame(b []byte) (frameParts, error) {
	var p frameParts
	version := FrameVersionOf(b)
	switch {
	case len(b) < frameHeader:
		return p, fmt.Errorf("%w: got %d bytes, want %d for the header", ErrFrameShort, len(b), frameHeader)
	case string(b[:len(frameMagic)]) != frameMagic:
		return p, fmt.Errorf("%w: got %q, want %q", ErrFrameMagic, b[:len(frameMagic)], frameMagic)
	case version < frameVersionPlain || version > FrameVersion:
		return p, fmt.Errorf("%w: got %d, want %d to %d", ErrFrameVersion, version, frameVersionPlain, FrameVersion)
	case len(b) > MaxFrame:
		return p, fmt.Errorf("%w: got %d bytes, want at most %d", ErrFrameBounds, len(b), MaxFrame)
	}
	p.source, p.holds = b[frameFlagsAt]&frameFlagSource != 0, version == frameVersionHolds
	each, _ := stride(p.source, p.holds)
	p.strings = int(binary.LittleEndian.Uint16(b[frameStringsAt:]))
	p.count = int(binary.LittleEndian.Uint16(b[frameEntriesAt:]))
	textAt := frameHeader + (p.strings+1)*frameOffset
	entriesAt := uint64(textAt) + uint64(binary.LittleEndian.Uint32(b[frameTextAt:]))
	size := entriesAt + uint64(p.count*each)
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

// decodeEntries fills in entries, of which there are as many as p has. Every request that is counted goes through this
// loop, so it only notices that something is wrong. refuse then finds out what it is.
func (p *frameParts) decodeEntries(entries []Entry) error {
	text, rows := string(p.text), p.entries
	step, holdsAt := stride(p.source, p.holds)
	offsets, strings := p.offsets, uint(p.strings)
	var kinds knownKinds
	for i := range entries {
		e, row := &entries[i], (*[frameEntry]byte)(rows)
		id := uint(binary.LittleEndian.Uint16(row[entryIDAt:]))
		resource := uint(binary.LittleEndian.Uint16(row[entryResourceAt:]))
		kind := uint(binary.LittleEndian.Uint16(row[entryKindAt:]))
		flags := binary.LittleEndian.Uint32(row[entryFlagsAt:]) // and the three reserved bytes
		if id >= strings || resource >= strings || kind >= strings || !allowedFlags.has(flags) {
			return p.refuse(i, e, row)
		}
		known := &kinds[kind%uint(len(kinds))]
		if known.next != kind+1 {
			known.kind, known.next = cut(text, offsets, kind), kind+1
			known.valid = checkKind(known.kind) == nil
		}
		e.Time = int64(binary.LittleEndian.Uint64(row[entryTimeAt:]))
		e.Kind = known.kind
		e.ID = cut(text, offsets, id)
		e.Resource = cut(text, offsets, resource)
		e.Cost = int64(binary.LittleEndian.Uint64(row[entryCostAt:]))
		e.Arrived, e.Declared, e.Offset = 0, 0, 0
		e.Count = binary.LittleEndian.Uint32(row[entryCountAt:])
		e.Status = binary.LittleEndian.Uint16(row[entryStatusAt:])
		e.Blocked = flags&entryFlagBlocked != 0
		e.Response = flags&entryFlagResponse != 0
		e.Early = flags&entryFlagEarly != 0
		if p.source {
			e.Offset = int64(binary.LittleEndian.Uint64(rows[entryOffsetAt:]))
		}
		if p.holds {
			e.Arrived = int64(binary.LittleEndian.Uint64(rows[holdsAt+entryArrivedAt:]))
			e.Declared = int64(binary.LittleEndian.Uint64(rows[holdsAt+entryDeclaredAt:]))
		}
		if !known.valid || !e.valid(p.source) {
			return p.refuse(i, e, row)
		}
		rows = rows[step:]
	}
	return nil
}

// knownKinds remembers the strings of a frame that were asked for as kinds, so that each is looked at once and not once
// an entry. A string is in the slot of its index's low bits; frames have few kinds.
type knownKinds [8]struct {
	kind  string
	next  uint // index + 1; 0 where the slot is empty
	valid bool
}

// cut returns string i, which exists: its offset and the next one are neighbours.
func cut(text string, offsets []byte, i uint) string {
	at := binary.LittleEndian.Uint64(offsets[i*frameOffset:])
	return text[uint32(at) : at>>32]
}

// refuse returns what is wrong with entry i, which decodeEntries found wrong.
func (p *frameParts) refuse(i int, e *Entry, row *[frameEntry]byte) error {
	err := p.validateRow(row)
	if err == nil {
		err = checkKind(e.Kind)
	}
	if err == nil {
		err = e.validate(p.source)
	}
	if err == nil {
		panic("BUG: refused a good entry")
	}
	return fmt.Errorf("%w %d: %w", ErrFrameEntry, i, err)
}

// validateRow returns an error unless the strings that a row names exist, its flags are known and go together, and its reserved
// bytes are 0.
func (p *frameParts) validateRow(row *[frameEntry]byte) error {
	for _, at := range []int{entryIDAt, entryResourceAt, entryKindAt} {
		if i := binary.LittleEndian.Uint16(row[at:]); int(i) >= p.strings {
			return fmt.Errorf("%w: got string %d of %d", errEntryString, i, p.strings)
		}
	}
	flags := binary.LittleEndian.Uint32(row[entryFlagsAt:])
	if allowedFlags.has(flags) {
		return nil
	}
	if flags <= entryFlags {
		return fmt.Errorf("%w: got flags %#x", errEntryEarly, flags)
	}
	return fmt.Errorf("%w: got %#x", errEntryFlags, flags)
}

// valid is validate for an entry whose flags go together, without the reason.
func (e *Entry) valid(source bool) bool {
	return uint(len(e.ID)-1) < MaxCallerID && len(e.Resource) <= MaxResource && e.Count != 0 && e.Cost|e.Offset|e.Arrived|e.Declared >= 0 &&
		(source || e.Offset == 0)
}

// validate reports whether a frame may hold the entry, except for its kind.
func (e *Entry) validate(source bool) error {
	switch {
	case len(e.ID) == 0 || len(e.ID) > MaxCallerID:
		return fmt.Errorf("%w: got %d bytes, want 1 to %d", ErrCallerID, len(e.ID), MaxCallerID)
	case len(e.Resource) > MaxResource:
		return fmt.Errorf("%w: got %d bytes, want at most %d", errEntryResource, len(e.Resource), MaxResource)
	case e.Count == 0:
		return errEntryCount
	case e.Cost < 0:
		return fmt.Errorf("%w: got %d, want 0 or more", errEntryCost, e.Cost)
	case e.Offset < 0, e.Offset != 0 && !source:
		return fmt.Errorf("%w: got %d, want 0 or more, and 0 outside source frames", errEntryOffset, e.Offset)
	case e.Arrived < 0:
		return fmt.Errorf("%w: got %d, want 0 or more", errEntryArrived, e.Arrived)
	case e.Declared < 0:
		return fmt.Errorf("%w: got %d, want 0 or more", errEntryDeclared, e.Declared)
	case e.Early && !e.Blocked:
		return errEntryEarly
	}
	return nil
}

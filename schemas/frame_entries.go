package schemas

import (
	"encoding/binary"
	"fmt"
)

// decodeEntries fills in entries, of which there are as many as p has. Every request that is counted goes through this
// loop, so it only notices that something is wrong. refuse then finds out what it is.
func (p *frameParts) decodeEntries(entries []Entry) error {
	text, rows, step := string(p.text), p.entries, stride(p.source)
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
			known.valid = ValidateKind(known.kind) == nil
		}
		e.Time = int64(binary.LittleEndian.Uint64(row[entryTimeAt:]))
		e.Kind = known.kind
		e.ID = cut(text, offsets, id)
		e.Resource = cut(text, offsets, resource)
		e.Cost = int64(binary.LittleEndian.Uint64(row[entryCostAt:]))
		e.Offset = 0
		e.Count = binary.LittleEndian.Uint32(row[entryCountAt:])
		e.Status = binary.LittleEndian.Uint16(row[entryStatusAt:])
		e.Blocked = flags&entryFlagBlocked != 0
		e.Response = flags&entryFlagResponse != 0
		e.Early = flags&entryFlagEarly != 0
		if p.source {
			e.Offset = int64(binary.LittleEndian.Uint64(rows[entryOffsetAt:]))
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
		err = ValidateKind(e.Kind)
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
	return uint(len(e.ID)-1) < MaxCallerID && len(e.Resource) <= MaxResource && e.Count != 0 && e.Cost|e.Offset >= 0 &&
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
	case e.Early && !e.Blocked:
		return errEntryEarly
	}
	return nil
}

package schemas

import (
	"encoding/binary"
	"fmt"
)

// decodeEntries fills in entries, of which there are as many as p has.
func (p *frameParts) decodeEntries(entries []Entry) error {
	text, step := string(p.text), stride(p.source)
	var kinds knownKinds
	for i := range entries {
		e, row := &entries[i], p.entries[i*step:][:step]
		if err := p.decodeEntry(e, row, text); err != nil {
			return fmt.Errorf("%w %d: %w", ErrFrameEntry, i, err)
		}
		if kind := binary.LittleEndian.Uint16(row[entryKindAt:]); !kinds.have(kind) {
			if err := ValidateKind(e.Kind); err != nil {
				return fmt.Errorf("%w %d: %w", ErrFrameEntry, i, err)
			}
			kinds.add(kind)
		}
	}
	return nil
}

// decodeEntry fills in one entry from its row and the strings of the frame, and checks all but its kind.
func (p *frameParts) decodeEntry(e *Entry, row []byte, text string) error {
	_ = row[frameEntry-1]
	id := uint(binary.LittleEndian.Uint16(row[entryIDAt:]))
	resource := uint(binary.LittleEndian.Uint16(row[entryResourceAt:]))
	kind := uint(binary.LittleEndian.Uint16(row[entryKindAt:]))
	if top := uint(p.strings); id >= top || resource >= top || kind >= top {
		return fmt.Errorf("%w: got strings %d, %d and %d of %d", errEntryString, kind, id, resource, p.strings)
	}
	flags := binary.LittleEndian.Uint32(row[entryFlagsAt:]) // and the three reserved bytes
	if flags&^(entryFlagBlocked|entryFlagResponse) != 0 {
		return fmt.Errorf("%w: got %#x", errEntryFlags, flags)
	}
	e.Time = int64(binary.LittleEndian.Uint64(row[entryTimeAt:]))
	e.Cost = int64(binary.LittleEndian.Uint64(row[entryCostAt:]))
	e.Count = binary.LittleEndian.Uint32(row[entryCountAt:])
	e.Status = binary.LittleEndian.Uint16(row[entryStatusAt:])
	e.Kind = p.str(text, kind)
	e.ID = p.str(text, id)
	e.Resource = p.str(text, resource)
	e.Blocked = flags&entryFlagBlocked != 0
	e.Response = flags&entryFlagResponse != 0
	e.Offset = 0
	if p.source {
		e.Offset = int64(binary.LittleEndian.Uint64(row[entryOffsetAt:]))
	}
	return e.validate(p.source)
}

// str returns string i, which exists: its offset and the next one are neighbours.
func (p *frameParts) str(text string, i uint) string {
	at := binary.LittleEndian.Uint64(p.offsets[i*frameOffset:])
	return text[uint32(at) : at>>32]
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
	}
	return nil
}

// knownKinds remembers which strings of a frame were found to be valid kinds, so that the few kinds of a frame are
// looked at once and not once an entry. It holds index + 1 of a string in the slot of its low bits.
type knownKinds [8]uint32

func (k *knownKinds) have(i uint16) bool { return k[i%8] == uint32(i)+1 }
func (k *knownKinds) add(i uint16)       { k[i%8] = uint32(i) + 1 }

package schemas

import (
	"encoding/binary"
	"fmt"
)

// AppendTo appends the frame to dst as FRAME.md lays it out. It refuses what Decode would refuse, with the same error, and
// returns dst as it was. A producer that sends frame after frame uses a FrameEncoder,
// which needs no allocation for each.
func (f *Frame) AppendTo(dst []byte) ([]byte, error) {
	var enc FrameEncoder
	enc.Reset(f.Source)
	for i := range f.Entries {
		if err := enc.Add(&f.Entries[i]); err != nil {
			return dst, fmt.Errorf("add entry %d: %w", i, err)
		}
	}
	return enc.AppendTo(dst, f)
}

// FrameEncoder collects the entries of a frame until it is full or due, and writes it. Its zero value collects a frame
// that is no source frame. It keeps the strings of its entries until Reset. One goroutine may use it.
type FrameEncoder struct {
	source  bool
	holds   bool // the frame is of version 2: some entry has what only that says
	count   int
	index   map[string]uint16 // of each distinct string
	offsets []byte            // where each string ends in text
	text    []byte
	entries []byte

	// The kind and the resource of the last entry, which are often those of the next one too.
	kind, resource           string
	kindIndex, resourceIndex uint16
}

// Reset drops all entries and starts a new frame, keeping the memory.
func (enc *FrameEncoder) Reset(source bool) {
	clear(enc.index)
	*enc = FrameEncoder{
		source: source, index: enc.index,
		offsets: enc.offsets[:0], text: enc.text[:0], entries: enc.entries[:0],
	}
}

// Len returns the number of entries collected.
func (enc *FrameEncoder) Len() int { return enc.count }

// Size returns the bytes that the frame takes as it is now.
func (enc *FrameEncoder) Size() int { return enc.sizeOf(enc.count, enc.holds) }

// SizeHolding returns the bytes that the frame takes once an entry has made it one of version 2.
func (enc *FrameEncoder) SizeHolding() int { return enc.sizeOf(enc.count, true) }

// sizeOf returns the bytes of a frame of the present strings and a number of entries.
func (enc *FrameEncoder) sizeOf(entries int, holds bool) int {
	each, _ := stride(enc.source, holds)
	return frameHeader + frameOffset + len(enc.offsets) + len(enc.text) + entries*each
}

// Add adds a copy of an entry. It returns ErrFrameFull where the frame has no room left for it, and an error that wraps
// ErrFrameEntry where no frame may hold it; either way nothing is added. An empty frame has room for any entry.
func (enc *FrameEncoder) Add(e *Entry) error {
	if err := e.validate(enc.source); err != nil {
		return fmt.Errorf("%w: %w", ErrFrameEntry, err)
	}
	sameKind := enc.count > 0 && e.Kind == enc.kind
	sameResource := enc.count > 0 && e.Resource == enc.resource
	if !sameKind {
		if err := checkKind(e.Kind); err != nil {
			return fmt.Errorf("%w: %w", ErrFrameEntry, err)
		}
	}
	if enc.count == MaxFrameEntries {
		return ErrFrameFull
	}
	strings, text := len(enc.offsets), len(enc.text)
	kind, resource := enc.kindIndex, enc.resourceIndex
	if !sameKind {
		kind = enc.intern(e.Kind)
	}
	if !sameResource {
		resource = enc.intern(e.Resource)
	}
	id := enc.intern(e.ID)
	holds := enc.holds || e.Holds()
	if enc.sizeOf(enc.count+1, holds) > MaxFrame {
		enc.forget(strings, text, e.Kind, e.Resource, e.ID)
		return ErrFrameFull
	}
	if holds && !enc.holds {
		enc.widen()
	}
	enc.kind, enc.kindIndex, enc.resource, enc.resourceIndex = e.Kind, kind, e.Resource, resource
	enc.count++
	enc.appendEntry(e, kind, id, resource)
	return nil
}

// intern returns the index of s among the strings, adding it if it is new.
func (enc *FrameEncoder) intern(s string) uint16 {
	if i, ok := enc.index[s]; ok {
		return i
	}
	if enc.index == nil {
		enc.index = make(map[string]uint16)
	}
	i := uint16(len(enc.offsets) / frameOffset)
	enc.index[s] = i
	enc.text = append(enc.text, s...)
	enc.offsets = binary.LittleEndian.AppendUint32(enc.offsets, uint32(len(enc.text)))
	return i
}

// forget takes back what intern added since offsets and text were as long as given.
func (enc *FrameEncoder) forget(offsets, text int, added ...string) {
	for _, s := range added {
		if i, ok := enc.index[s]; ok && int(i) >= offsets/frameOffset {
			delete(enc.index, s)
		}
	}
	enc.offsets, enc.text = enc.offsets[:offsets], enc.text[:text]
}

// widen makes the frame one of version 2, whose first entries have nothing that only version 2 says.
func (enc *FrameEncoder) widen() {
	from, _ := stride(enc.source, false)
	to, _ := stride(enc.source, true)
	enc.holds, enc.entries = true, append(enc.entries, make([]byte, enc.count*(to-from))...)
	for i := enc.count - 1; i >= 0; i-- {
		copy(enc.entries[i*to:], enc.entries[i*from:][:from])
		clear(enc.entries[i*to+from : (i+1)*to])
	}
}

func (enc *FrameEncoder) appendEntry(e *Entry, kind, id, resource uint16) {
	var flags byte
	if e.Blocked {
		flags |= entryFlagBlocked
	}
	if e.Response {
		flags |= entryFlagResponse
	}
	if e.Early {
		flags |= entryFlagEarly
	}
	b := binary.LittleEndian.AppendUint64(enc.entries, uint64(e.Time))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Cost))
	b = binary.LittleEndian.AppendUint32(b, e.Count)
	b = binary.LittleEndian.AppendUint16(b, id)
	b = binary.LittleEndian.AppendUint16(b, resource)
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = binary.LittleEndian.AppendUint16(b, e.Status)
	b = append(b, flags, 0, 0, 0)
	if enc.source {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Offset))
	}
	if enc.holds {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Arrived))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Declared))
	}
	enc.entries = b
}

// AppendTo appends to dst the frame that has the header of head and the collected entries. It does not look at head.Entries. It fails if
// head.Source is not the source of the last Reset, or if the sequence number does not fit the kind of frame. The entries stay until
// Reset.
func (enc *FrameEncoder) AppendTo(dst []byte, head *Frame) ([]byte, error) {
	if head.Source != enc.source {
		return dst, fmt.Errorf("%w: got source %v in the header, %v for the entries", ErrFrameBounds, head.Source, enc.source)
	}
	if err := head.validateSeq(); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, frameMagic...)
	version := uint16(frameVersionPlain)
	if enc.holds {
		version = frameVersionHolds
	}
	dst = binary.LittleEndian.AppendUint16(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, 0) // the checksum, below
	dst = append(dst, head.Producer[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, head.Seq)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(head.Flushed))
	dst = binary.LittleEndian.AppendUint64(dst, head.Fingerprint)
	dst = binary.LittleEndian.AppendUint32(dst, head.Partitions)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(enc.text)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(enc.offsets)/frameOffset))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(enc.count))
	var flags byte
	if enc.source {
		flags = frameFlagSource
	}
	dst = append(dst, flags, 0, 0, 0)
	dst = append(dst, 0, 0, 0, 0) // where the first string starts
	dst = append(dst, enc.offsets...)
	dst = append(dst, enc.text...)
	dst = append(dst, enc.entries...)
	frame := dst[start:]
	binary.LittleEndian.PutUint32(frame[frameCRCAt:], frameCRC(frame))
	return dst, nil
}

// An index of a string fits two bytes.
const _ = uint16(3 * MaxFrameEntries)

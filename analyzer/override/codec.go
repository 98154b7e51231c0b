package override

import (
	"encoding/binary"
	"fmt"

	"github.com/509da70d/floodgate/schemas"
)

// version is the first byte of a row's value.
const version = 1

// maxText bounds what is read of one string of a control record, in bytes. All of them are shorter.
const maxText = 1024

// Key returns the store key of a control record: the prefix and its id.
func Key(id schemas.ControlID) []byte { return append([]byte{KeyPrefix}, id[:]...) }

func (r *Record) key() []byte { return Key(r.ID) }

// value encodes a version, where the record was applied, the record, and the record that undid it, if there is one.
func (r *Record) value(undo *schemas.Control) []byte {
	b := append(make([]byte, 0, 256), version) // enough for most records
	b = binary.AppendVarint(b, r.Offset)
	b = binary.AppendVarint(b, r.From)
	b = binary.AppendVarint(b, r.At)
	b = appendControl(b, &r.Control)
	if undo != nil {
		b = appendControl(append(b, undo.ID[:]...), undo)
	}
	return b
}

// appendControl appends all of a control record except its id.
func appendControl(b []byte, c *schemas.Control) []byte {
	b = binary.AppendVarint(append(b, byte(c.Action)), c.Time)
	for _, s := range [...]string{c.Author, c.Reason, c.Caller.Kind, c.Caller.ID, c.Rule} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = binary.AppendVarint(b, c.Limit)
	b = binary.AppendVarint(b, c.Until)
	return append(b, c.Target[:]...)
}

// reader reads what appendControl writes. After the first error it reads nothing more.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) text() string {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > maxText {
		r.b, r.bad = nil, true
		return ""
	}
	r.b = r.b[size:]
	return string(r.bytes(n))
}

func (r *reader) record() (c schemas.Control) {
	if b := r.bytes(1); len(b) == 1 {
		c.Action = schemas.ControlAction(b[0])
	}
	c.Time = r.varint()
	for _, s := range [...]*string{&c.Author, &c.Reason, &c.Caller.Kind, &c.Caller.ID, &c.Rule} {
		*s = r.text()
	}
	c.Limit, c.Until = r.varint(), r.varint()
	copy(c.Target[:], r.bytes(uint64(len(c.Target))))
	return c
}

// ReadRecord reads a stored row. The result shares no memory with key and value.
func ReadRecord(key, value []byte) (r Record, err error) {
	if len(key) != 1+len(r.ID) || len(value) == 0 || value[0] != version {
		return r, fmt.Errorf("%w: got %d + %d bytes", ErrRow, len(key), len(value))
	}
	in := reader{b: value[1:]}
	r.Offset, r.From, r.At = in.varint(), in.varint(), in.varint()
	r.Control = in.record()
	copy(r.ID[:], key[1:])
	if len(in.b) > 0 {
		var id schemas.ControlID
		copy(id[:], in.bytes(uint64(len(id))))
		undo := in.record()
		undo.ID, r.UndoneBy = id, &undo
	}
	if in.bad || len(in.b) > 0 || r.Offset < 0 || r.From < 0 || !r.restorable() {
		return Record{}, fmt.Errorf("%w: got %s, which no owner writes", ErrRow, r.ID)
	}
	return r, nil
}

// restorable reports whether a fold can have stored the record.
func (r *Record) restorable() bool {
	about := r.Caller.Validate() == nil
	switch r.Action {
	case schemas.ControlClose, schemas.ControlOpen:
	case schemas.ControlLimit:
		about = about && r.Rule != "" && r.Limit > 0
	case schemas.ControlReset:
		return about && r.UndoneBy == nil
	case schemas.ControlMode:
		about = true
	case schemas.ControlUndo, schemas.ControlRules:
		return false
	default:
		return false
	}
	return about && r.Until > r.Time && (r.UndoneBy == nil || r.UndoneBy.Action == schemas.ControlUndo && r.UndoneBy.Target == r.ID)
}

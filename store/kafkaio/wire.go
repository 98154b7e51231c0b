package kafkaio

import (
	"encoding/binary"
	"fmt"
	"math"
)

// wire reads Kafka's fixed-width encoding. After the first field that is out of bounds, err is set and everything reads as
// zero.
type wire struct {
	b   []byte
	err error
}

func (w *wire) take(n int) []byte {
	if w.err != nil || n < 0 || n > len(w.b) {
		if w.err == nil {
			w.err = fmt.Errorf("%w: got %d bytes, want %d", errWrongAnswer, len(w.b), n)
		}
		return nil
	}
	b := w.b[:n:n]
	w.b = w.b[n:]
	return b
}

func (w *wire) int16() int16 {
	if b := w.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (w *wire) int32() int32 {
	if b := w.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (w *wire) int64() int64 {
	if b := w.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string reads a nullable string; null is empty.
func (w *wire) string() string {
	n := w.int16()
	if n < 0 {
		return ""
	}
	return string(w.take(int(n)))
}

// bytes reads nullable bytes without copying them.
func (w *wire) bytes() []byte {
	n := w.int32()
	if n < 0 {
		return nil
	}
	return w.take(int(n))
}

// set reads a record set; if the set is cut, it returns the part that is there.
func (w *wire) set(cut bool) []byte {
	if !cut {
		return w.bytes()
	}
	n := int64(w.int32())
	return w.take(int(min(max(n, 0), int64(len(w.b)))))
}

// count reads the length of an array whose elements take at least size bytes each; null is 0.
func (w *wire) count(size int) int {
	n := int(w.int32())
	if n < 0 {
		return 0
	}
	if n > len(w.b)/size {
		if w.err == nil {
			w.err = fmt.Errorf("%w: got an array of %d in %d bytes", errWrongAnswer, n, len(w.b))
		}
		return 0
	}
	return n
}

// one reads the length of an array that must have one element, because one was asked for.
func (w *wire) one(what string) {
	if n := w.int32(); n != 1 && w.err == nil {
		w.err = fmt.Errorf("%w: got %d %ss, want 1", errWrongAnswer, n, what)
	}
}

// uvarint reads an unsigned number of variable length.
func (w *wire) uvarint() uint64 {
	if w.err != nil {
		return 0
	}
	v, n := binary.Uvarint(w.b)
	if n <= 0 {
		w.err = fmt.Errorf("%w: got %d bytes, want a number", errWrongAnswer, len(w.b))
		return 0
	}
	w.b = w.b[n:]
	return v
}

// compact reads a string or bytes of the newer encoding, in which a length is one more than it is; null is empty.
func (w *wire) compact() []byte { return w.take(w.compactCount()) }

// compactCount reads the length of an array of that encoding, whose elements take at least a byte each; null is 0.
func (w *wire) compactCount() int {
	n := w.uvarint()
	if n > uint64(len(w.b))+1 && w.err == nil {
		w.err = fmt.Errorf("%w: got a length of %d in %d bytes", errWrongAnswer, n-1, len(w.b))
	}
	if n == 0 || w.err != nil {
		return 0
	}
	return int(n - 1)
}

// tags skips tagged fields. No protocol has one with a high number; kafka-go would take the highest for its own marker of such
// fields, which has number -1, and decode its bytes.
func (w *wire) tags() {
	for n := w.uvarint(); n > 0 && w.err == nil; n-- {
		if id := w.uvarint(); id > math.MaxInt32 && w.err == nil {
			w.err = fmt.Errorf("%w: got a field with the tag %d", errWrongAnswer, id)
		}
		size := w.uvarint()
		w.take(int(min(size, uint64(len(w.b))+1)))
	}
}

package kafkaio

import "encoding/binary"

// fields reads the fields of one record; bad says that one was out of bounds.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) skip(n int) {
	if n > len(f.b) {
		f.b, f.bad = nil, true
		return
	}
	f.b = f.b[n:]
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad = true
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) nullable() []byte {
	n := f.varint()
	if f.bad || n < 0 {
		return nil
	}
	if n > int64(len(f.b)) {
		f.bad = true
		return nil
	}
	v := f.b[:n:n]
	f.b = f.b[n:]
	return v
}

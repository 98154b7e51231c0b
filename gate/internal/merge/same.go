package merge

import (
	"encoding/binary"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// same reports whether a key in the arena is the key of e. Its three lengths are equal to those of e. It compares three
// strings in line: keys are short, and a call of the runtime takes longer than the comparison.
func same(key []byte, e *schemas.Entry) bool {
	kind, id := len(e.Kind), len(e.Kind)+len(e.ID)
	key = key[:id+len(e.Resource)] // the only bounds check
	p := unsafe.Pointer(unsafe.SliceData(key))
	return equal(unsafe.Add(p, kind), e.ID) && equal(unsafe.Add(p, id), e.Resource) && equal(p, e.Kind)
}

// equal reports whether the bytes at p are s.
func equal(p unsafe.Pointer, s string) bool {
	q, n := unsafe.Pointer(unsafe.StringData(s)), len(s)
	switch {
	case n >= 8:
		for i := 0; i < n-8; i += 8 {
			if load8(p, i) != load8(q, i) {
				return false
			}
		}
		return load8(p, n-8) == load8(q, n-8)
	case n >= 2:
		for i := 0; i < n-2; i += 2 {
			if load2(p, i) != load2(q, i) {
				return false
			}
		}
		return load2(p, n-2) == load2(q, n-2)
	}
	return n == 0 || *(*byte)(p) == s[0]
}

func load2(p unsafe.Pointer, at int) uint16 {
	return binary.NativeEndian.Uint16((*[2]byte)(unsafe.Add(p, at))[:])
}

func load8(p unsafe.Pointer, at int) uint64 {
	return binary.NativeEndian.Uint64((*[8]byte)(unsafe.Add(p, at))[:])
}

package kafkaio

import (
	"encoding/binary"
	"fmt"
	"io"
)

// snappyWindow is how far back a copy may reach, in bytes. Most producers copy within blocks of 64 KiB. Some write a batch
// as one block, and copy within all of it, but rarely from far back. Older bytes are not kept.
const (
	snappyWindow = 64 << 20
	snappyPage   = 256 << 10
	snappyStep   = 64 << 10 // bytes that are unpacked ahead of a Read
)

// snappyStream unpacks snappy, bare or in xerial's framing. Of a block it never keeps more than its window. The format is
// https://github.com/google/snappy/blob/main/format_description.txt.
type snappyStream struct {
	rest  []byte // of the input, behind block
	block []byte // the part of the current block that is not read yet
	left  uint64 // bytes that the current block still unpacks to
	plain uint64 // of these, literal bytes at the beginning of block
	err   error

	// The last bytes that were unpacked, in pages that are allocated at their first write.
	ring   [][]byte
	start  uint64 // position of the current block, in unpacked bytes; copies reach no further back
	end    uint64 // number of unpacked bytes
	served uint64 // how many of these were returned
}

func newSnappyStream(packed []byte) *snappyStream {
	s := &snappyStream{block: packed}
	longest := uint64(0)
	if len(packed) >= xerialHeader && string(packed[:len(xerialMagic)]) == xerialMagic {
		s.block, s.rest = nil, packed[xerialHeader:]
		for rest := s.rest; len(rest) > 0; {
			var block []byte
			if block, rest, s.err = xerialBlock(rest); s.err != nil {
				break // read what is before it
			}
			size, _ := binary.Uvarint(block)
			longest = max(longest, size)
		}
		s.err = nil
	} else {
		longest, _ = binary.Uvarint(packed)
		s.begin()
	}
	s.ring = make([][]byte, (min(longest, snappyWindow)+4*snappyStep)/snappyPage+2)
	return s
}

// xerialBlock cuts the first block off framed snappy.
func xerialBlock(framed []byte) (block, rest []byte, err error) {
	if len(framed) < 4 {
		return nil, nil, fmt.Errorf("%w: got %d bytes of a snappy block's length", errCodec, len(framed))
	}
	n := binary.BigEndian.Uint32(framed)
	if uint64(n) > uint64(len(framed)-4) {
		return nil, nil, fmt.Errorf("%w: got a snappy block of %d in %d bytes", errCodec, n, len(framed)-4)
	}
	return framed[4 : 4+n], framed[4+n:], nil
}

// Read returns the next unpacked bytes.
func (s *snappyStream) Read(b []byte) (int, error) {
	for s.err == nil && s.end-s.served < min(uint64(len(b)), snappyStep) {
		s.more()
	}
	n := 0
	for n < len(b) && s.served < s.end {
		page := s.page(s.served)
		m := copy(b[n:], page[:min(uint64(len(page)), s.end-s.served)])
		n, s.served = n+m, s.served+uint64(m)
	}
	if n == 0 && len(b) > 0 {
		return 0, s.err
	}
	return n, nil
}

// page returns the bytes from a position to the end of its page.
func (s *snappyStream) page(at uint64) []byte {
	p := &s.ring[at/snappyPage%uint64(len(s.ring))]
	if *p == nil {
		*p = make([]byte, snappyPage)
	}
	return (*p)[at%snappyPage:]
}

// append unpacks b.
func (s *snappyStream) append(b []byte) {
	s.left -= uint64(len(b))
	for len(b) > 0 {
		n := copy(s.page(s.end), b)
		b, s.end = b[n:], s.end+uint64(n)
	}
}

// begin reads the unpacked length of the current block.
func (s *snappyStream) begin() {
	size, n := binary.Uvarint(s.block)
	if n <= 0 || size > 0xffffffff {
		s.fail("a block of %d bytes without its unpacked length", len(s.block))
		return
	}
	s.block, s.left, s.start = s.block[n:], size, s.end
}

func (s *snappyStream) fail(format string, args ...any) {
	s.err = fmt.Errorf("%w: snappy: got "+format, append([]any{errCodec}, args...)...)
}

// more unpacks some bytes, or begins the next block, or sets err.
func (s *snappyStream) more() {
	switch {
	case s.plain > 0:
		n := min(s.plain, snappyStep)
		s.append(s.block[:n])
		s.block, s.plain = s.block[n:], s.plain-n
	case len(s.block) > 0:
		s.element()
	case s.left > 0:
		s.fail("a block that is %d bytes short", s.left)
	case len(s.rest) == 0:
		s.err = io.EOF
	default:
		if s.block, s.rest, s.err = xerialBlock(s.rest); s.err == nil {
			s.begin()
		}
	}
}

// element begins a literal, or unpacks a copy.
func (s *snappyStream) element() {
	tag := s.block[0]
	if tag&3 == 0 {
		s.literal(int(tag >> 2))
		return
	}
	size := [4]int{1: 2, 2: 3, 3: 5}[tag&3]
	if len(s.block) < size {
		s.fail("a copy that is cut short")
		return
	}
	length, offset := 1+uint64(tag>>2), uint64(0)
	switch tag & 3 {
	case 1:
		length, offset = 4+uint64(tag>>2&7), uint64(tag&0xe0)<<3|uint64(s.block[1])
	case 2:
		offset = uint64(binary.LittleEndian.Uint16(s.block[1:]))
	case 3:
		offset = uint64(binary.LittleEndian.Uint32(s.block[1:]))
	}
	if offset == 0 || offset > min(s.end-s.start, snappyWindow) || length > s.left {
		s.fail("a copy of %d bytes from %d back, with %d unpacked and %d to come", length, offset, s.end-s.start, s.left)
		return
	}
	s.block = s.block[size:]
	for length > 0 { // it may overlap itself
		from := s.page(s.end - offset)
		n := min(length, offset, uint64(len(from)))
		s.append(from[:n])
		length -= n
	}
}

// literal begins a literal whose tag says n: its length, or how many bytes its length takes.
func (s *snappyStream) literal(n int) {
	size, length := 1, uint64(n)+1
	if n >= 60 {
		size = n - 58 // 1 to 4 bytes behind the tag
		if len(s.block) < size {
			s.fail("a literal that is cut short")
			return
		}
		var le [8]byte
		copy(le[:], s.block[1:size])
		length = binary.LittleEndian.Uint64(le[:]) + 1
	}
	if length > uint64(len(s.block)-size) || length > s.left {
		s.fail("a literal of %d in %d bytes, with %d to come", length, len(s.block)-size, s.left)
		return
	}
	s.block, s.plain = s.block[size:], length
}

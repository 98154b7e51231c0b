package replay

import (
	"encoding/binary"
	"unsafe"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// chunkSize is how many bytes a chunk holds. It is more than maxPacked.
const chunkSize = 16 << 10

// A line in a chunk is its time and cost (8 bytes each), status, flags, and length of the resource (2 each), the length of each id (2), then
// the ids and the resource, and behind that its end, arrival and declared cost (8 each), if the flags say so. A chunk contains no pointers,
// so that the garbage collector does not scan it.
const (
	packedHead = 8 + 8 + 2 + 2 + 2
	packedTail = 8 + 8 + 8
	maxPacked  = packedHead + ingest.MaxCallers*(2+schemas.MaxCallerID) + 2 + schemas.MaxCallerID + schemas.MaxResource + packedTail

	packedBlocked  = 1 << 0
	packedDuration = 1 << 1 // the mapping knows one: the line has a tail
)

// chunk is memory for the lines that a sorter keeps.
type chunk struct{ data []byte }

// add appends l, or reports false if it does not fit.
func (c *chunk) add(l *ingest.Line) bool {
	size, flags := packedHead+len(l.Resource), byte(0)
	if l.Blocked {
		flags |= packedBlocked
	}
	if lasts(l) || l.Arrived|l.Declared != 0 {
		size, flags = size+packedTail, flags|packedDuration
	}
	for _, id := range l.IDs {
		size += 2 + len(id)
	}
	n := len(c.data)
	if size > cap(c.data)-n {
		return false
	}
	c.data = c.data[:n+size]
	b := c.data[n:]
	binary.LittleEndian.PutUint64(b, uint64(l.Time))
	binary.LittleEndian.PutUint64(b[8:], uint64(l.Cost))
	binary.LittleEndian.PutUint16(b[16:], l.Status)
	binary.LittleEndian.PutUint16(b[18:], uint16(len(l.Resource)))
	b[20], b[21] = flags, 0
	at := packedHead
	for _, id := range l.IDs {
		binary.LittleEndian.PutUint16(b[at:], uint16(len(id)))
		at += 2
	}
	for _, id := range l.IDs {
		at += copy(b[at:], id)
	}
	at += copy(b[at:], l.Resource)
	if flags&packedDuration != 0 {
		binary.LittleEndian.PutUint64(b[at:], uint64(l.End))
		binary.LittleEndian.PutUint64(b[at+8:], uint64(l.Arrived))
		binary.LittleEndian.PutUint64(b[at+16:], uint64(l.Declared))
	}
	return true
}

// read sets l to the line at offset at, and returns the offset behind it. l must have as many ids as the lines that were
// added. The strings of l are views into the chunk.
func (c *chunk) read(at int, l *ingest.Line) int {
	b := c.data[at:]
	l.Time = int64(binary.LittleEndian.Uint64(b))
	l.Cost = int64(binary.LittleEndian.Uint64(b[8:]))
	l.Status = binary.LittleEndian.Uint16(b[16:])
	l.Blocked = b[20]&packedBlocked != 0
	resource := int(binary.LittleEndian.Uint16(b[18:]))
	text := packedHead + 2*len(l.IDs)
	for i := range l.IDs {
		n := int(binary.LittleEndian.Uint16(b[packedHead+2*i:]))
		l.IDs[i] = view(b[text : text+n])
		text += n
	}
	l.Resource = view(b[text : text+resource])
	text += resource
	l.End, l.Arrived, l.Declared = l.Time, 0, 0
	if b[20]&packedDuration != 0 {
		l.End = int64(binary.LittleEndian.Uint64(b[text:]))
		l.Arrived = int64(binary.LittleEndian.Uint64(b[text+8:]))
		l.Declared = int64(binary.LittleEndian.Uint64(b[text+16:]))
		text += packedTail
	}
	return at + text
}

// view returns b as a string that shares its memory. Copies would be the largest part of a line's cost.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// chunks provides at most limit chunks at a time (but always one), and reuses those that are given back.
type chunks struct {
	limit int
	taken int
	free  []*chunk
}

// take returns an empty chunk, or nil if limit chunks are in use.
func (c *chunks) take() *chunk {
	if c.taken >= max(1, c.limit) {
		return nil
	}
	c.taken++
	if n := len(c.free); n > 0 {
		t := c.free[n-1]
		c.free = c.free[:n-1]
		return t
	}
	return &chunk{data: make([]byte, 0, chunkSize)}
}

// give takes a chunk back. No line in it may be used any more.
func (c *chunks) give(t *chunk) {
	t.data = t.data[:0]
	c.taken--
	c.free = append(c.free, t)
}

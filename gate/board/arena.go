package board

// arena is memory for bodies. It consists of chunks, so that it grows without moving, and holds no pointers, so that the garbage
// collector scans nothing in it. A ref says where a body is. The zero value is empty.
type arena struct {
	chunks  []chunk
	free    []uint32 // numbers of chunks without memory
	open    int      // 1 + the number of the chunk that new bodies go to; 0: none
	memory  int      // bytes of all chunks
	garbage int      // bytes of bodies that were given back, in chunks that have memory
}

// chunk holds bodies one behind the other. Those that were given back are still there.
type chunk struct {
	bytes   *[chunkSize]byte
	used    int32
	garbage int32
}

const (
	granule   = 4 // bytes: bodies begin at multiples of it
	chunkSize = 32 << 10

	granulesOfChunk = chunkSize / granule
)

// padded returns how many bytes of the arena a body of n bytes takes.
func padded(n int) int { return (n + granule - 1) &^ (granule - 1) }

// body returns the body at a ref, with its padding.
func (a *arena) body(ref uint32) body {
	c, at := &a.chunks[ref/granulesOfChunk], ref%granulesOfChunk*granule
	return c.bytes[at : at+uint32(c.bytes[at])*granule]
}

// put stores a copy of a body, and returns its ref.
func (a *arena) put(b body) uint32 {
	n := padded(len(b))
	if a.open == 0 || int(a.chunks[a.open-1].used)+n > chunkSize {
		a.openChunk()
	}
	c, number := &a.chunks[a.open-1], uint32(a.open-1)
	at := c.used
	clear(c.bytes[at+int32(copy(c.bytes[at:], b)) : at+int32(n)])
	c.bytes[at] = byte(n / granule)
	c.used += int32(n)
	return number*granulesOfChunk + uint32(at)/granule
}

// openChunk makes the chunk that new bodies go to.
func (a *arena) openChunk() {
	a.memory += chunkSize
	fresh := chunk{bytes: new([chunkSize]byte)}
	if n := len(a.free); n > 0 {
		a.chunks[a.free[n-1]], a.open = fresh, int(a.free[n-1])+1
		a.free = a.free[:n-1]
		return
	}
	a.chunks = append(a.chunks, fresh) // maxClosures is below
	a.open = len(a.chunks)
}

// giveBack says that a body is needed no more. A chunk without another one gives its memory back, or is filled anew.
func (a *arena) giveBack(ref uint32) {
	number, n := ref/granulesOfChunk, int32(len(a.body(ref)))
	c := &a.chunks[number]
	c.garbage += n
	a.garbage += int(n)
	switch {
	case c.garbage < c.used:
	case a.open == int(number)+1:
		a.garbage -= int(c.garbage)
		c.used, c.garbage = 0, 0
	default:
		a.freeChunk(number)
	}
}

// freeChunk gives back the memory of a chunk that is not open.
func (a *arena) freeChunk(number uint32) {
	a.garbage -= int(a.chunks[number].garbage)
	a.memory -= chunkSize
	a.chunks[number] = chunk{}
	a.free = append(a.free, number)
}

// wasteful reports whether more than a quarter of the memory is garbage.
func (a *arena) wasteful() bool { return a.garbage > a.memory/4+chunkSize }

// worst returns the number of the chunk with the most garbage. There is one.
func (a *arena) worst() (number uint32) {
	for i := range a.chunks {
		if a.chunks[i].garbage > a.chunks[number].garbage {
			number = uint32(i)
		}
	}
	return number
}

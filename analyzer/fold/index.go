package fold

// index finds numbers by a hash: open addressing with linear probing. A slot keeps the upper half of the hash as a tag,
// so that most probes of other numbers touch no other memory; its place depends on the lower half.
//
// The hash must be one that nobody outside this process can compute. Of a hash that is known, ids can be found by the
// hundred thousand that all begin in one place, and each probe then passes over all of them. The zero value is empty.
// One goroutine may use an index.
type index struct {
	slots []slot // a power of two of them; at most 3/4 used
	used  int
}

// slot is one place: part of a hash, and a number + 1 (0 is an empty slot).
type slot struct {
	tag    uint32
	number uint32
}

// mask returns what turns a hash into a place. There are far fewer than 2^32 slots.
func (x *index) mask() uint32 { return uint32(len(x.slots) - 1) }

// add adds a number, which the index must not hold. home returns the lower half of the hash of a number that it holds.
func (x *index) add(hash uint64, number uint32, home func(number uint32) uint32) {
	if (x.used+1)*4 > len(x.slots)*3 {
		x.grow(home)
	}
	x.used++
	x.link(uint32(hash), slot{tag: uint32(hash >> 32), number: number + 1}) // the lower half, and the upper
}

// link puts a slot into the first free place.
func (x *index) link(home uint32, s slot) {
	mask := x.mask()
	at := home & mask
	for x.slots[at].number != 0 {
		at = (at + 1) & mask
	}
	x.slots[at] = s
}

func (x *index) grow(home func(number uint32) uint32) {
	old := x.slots
	x.slots = make([]slot, max(64, 2*len(old)))
	for _, s := range old {
		if s.number != 0 {
			x.link(home(s.number-1), s)
		}
	}
}

// remove removes a number, which the index must hold. Slots behind it move up, so that no probe ends early (Knuth, vol. 3,
// 6.4, algorithm R).
func (x *index) remove(number uint32, home func(number uint32) uint32) {
	mask := x.mask()
	at := x.place(number, home)
	for j := (at + 1) & mask; x.slots[j].number != 0; j = (j + 1) & mask {
		begin := home(x.slots[j].number-1) & mask
		if (j-begin)&mask >= (j-at)&mask {
			x.slots[at] = x.slots[j]
			at = j
		}
	}
	x.slots[at] = slot{}
	x.used--
}

// renumber gives a number, which the index must hold, another name under the same hash.
func (x *index) renumber(from, to uint32, home func(number uint32) uint32) {
	x.slots[x.place(from, home)].number = to + 1
}

// place returns the slot of a number that the index holds.
func (x *index) place(number uint32, home func(number uint32) uint32) uint32 {
	mask := x.mask()
	at := home(number) & mask
	for x.slots[at].number != number+1 {
		at = (at + 1) & mask
	}
	return at
}

// Package index finds values by a hash. An Index maps hashes to numbers, and a Slab holds the values that have these numbers. Both are
// pure: they do no I/O, and have no clock, no log and no lock.
package index

// Index finds numbers by a hash: open addressing with linear probing. A slot keeps the upper half of the hash as a tag,
// so that most probes of other numbers touch no other memory; its place depends on the lower half.
//
// Where others choose what is hashed, they must not be able to compute the hash. Else they could choose a hundred thousand ids that all
// begin in one place, and each probe would pass over all of them. The zero value is empty. One goroutine may use an Index.
type Index struct {
	slots []slot // a power of two of them; at most 3/4 used
	used  int
}

// slot is one place: part of a hash, and a number + 1 (0 is an empty slot).
type slot struct {
	tag    uint32
	number uint32
}

// Home returns the half of a hash that a number's slot depends on.
func Home(hash uint64) uint32 { return uint32(hash) } // the lower half

// Probe is a search for the numbers under one hash.
type Probe struct {
	slots []slot
	at    uint32
	tag   uint32
}

// Probe begins a search: Next returns the numbers.
func (x *Index) Probe(hash uint64) Probe {
	return Probe{slots: x.slots, at: uint32(hash), tag: uint32(hash >> 32)} // the lower half, and the upper
}

// Next returns the next number whose hash has the tag of the one that is searched for; false if there are no more. The caller compares
// what the number stands for.
func (p *Probe) Next() (uint32, bool) {
	if len(p.slots) == 0 {
		return 0, false
	}
	for {
		s := p.slots[p.at&uint32(len(p.slots)-1)]
		if p.at++; s.number == 0 {
			return 0, false
		}
		if s.tag == p.tag {
			return s.number - 1, true
		}
	}
}

// mask returns what turns a hash into a place. There are far fewer than 2^32 slots.
func (x *Index) mask() uint32 { return uint32(len(x.slots) - 1) }

// Add adds a number, which the index must not hold. home returns the Home of the hash of a number that it holds.
func (x *Index) Add(hash uint64, number uint32, home func(number uint32) uint32) {
	if (x.used+1)*4 > len(x.slots)*3 {
		x.grow(home)
	}
	x.used++
	x.link(Home(hash), slot{tag: uint32(hash >> 32), number: number + 1}) // the upper half
}

// link puts a slot into the first free place.
func (x *Index) link(home uint32, s slot) {
	mask := x.mask()
	at := home & mask
	for x.slots[at].number != 0 {
		at = (at + 1) & mask
	}
	x.slots[at] = s
}

func (x *Index) grow(home func(number uint32) uint32) {
	old := x.slots
	x.slots = make([]slot, max(64, 2*len(old)))
	for _, s := range old {
		if s.number != 0 {
			x.link(home(s.number-1), s)
		}
	}
}

// Remove removes a number, which the index must hold. Slots behind it move up, so that no probe ends early (Knuth, vol. 3,
// 6.4, algorithm R).
func (x *Index) Remove(number uint32, home func(number uint32) uint32) {
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

// Renumber gives a number, which the index must hold, another name under the same hash.
func (x *Index) Renumber(from, to uint32, home func(number uint32) uint32) {
	x.slots[x.place(from, home)].number = to + 1
}

// place returns the slot of a number that the index holds.
func (x *Index) place(number uint32, home func(number uint32) uint32) uint32 {
	mask := x.mask()
	at := home(number) & mask
	for x.slots[at].number != number+1 {
		at = (at + 1) & mask
	}
	return at
}

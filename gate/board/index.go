package board

import (
	"hash/maphash"
	"math/bits"
)

// index finds slots by a hash of the caller. The hash has a random seed: nobody can choose ids that collide. An index consists of
// segments. Each segment is a table with open addressing and linear probing. A segment grows by itself. So a growing index makes no long
// pause, and needs no second table of all its places. A place has 6 bytes. While an index grows, 58 to 88 of 100 places are in use.
type index struct {
	seed     maphash.Seed
	segments [segments]segment
}

const segments = 256

// segment is one table. A place is a tag and a slot. The tag is a part of the hash, and also says where a search begins. Tag 0 is an
// empty place.
type segment struct {
	tags  []uint16
	slots []uint32
	used  int
}

// hash returns the hash of a caller. The order of kind and key matters.
func (x *index) hash(c *caller) uint64 {
	return bits.RotateLeft64(maphash.String(x.seed, c.kind), 32) ^ maphash.Bytes(x.seed, c.key)
}

func (x *index) segment(hash uint64) *segment { return &x.segments[hash>>56] }

func tagOf(hash uint64) uint16 { return max(uint16(hash>>32), 1) }

// home returns where a search for a tag begins. To multiply and shift spreads tags over any number of places.
func (s *segment) home(tag uint16) int { return int(tag) * len(s.tags) >> 16 }

func (s *segment) next(at int) int {
	if at++; at < len(s.tags) {
		return at
	}
	return 0
}

// probe is a search for the slots under one hash.
type probe struct {
	*segment
	tag uint16
	at  int
}

func (x *index) probe(hash uint64) probe {
	p := probe{segment: x.segment(hash), tag: tagOf(hash)}
	p.at = p.home(p.tag)
	return p
}

// nextSlot returns the next slot whose hash may be the one that is searched for; false if there are no more.
func (p *probe) nextSlot() (uint32, bool) {
	if p.used == 0 {
		return 0, false
	}
	for p.tags[p.at] != 0 {
		at := p.at
		if p.at = p.next(at); p.tags[at] == p.tag {
			return p.slots[at], true
		}
	}
	return 0, false
}

// add adds a slot, which the index does not hold.
func (x *index) add(hash uint64, slot uint32) {
	s := x.segment(hash)
	if (s.used+1)*8 > len(s.tags)*7 { // one place at least stays empty
		s.resize(len(s.tags)*3/2 + 8)
	}
	s.put(tagOf(hash), slot)
}

func (s *segment) put(tag uint16, slot uint32) {
	at := s.home(tag)
	for s.tags[at] != 0 {
		at = s.next(at)
	}
	s.tags[at], s.slots[at] = tag, slot
	s.used++
}

func (s *segment) resize(places int) {
	old := *s
	*s = segment{tags: make([]uint16, places), slots: make([]uint32, places)}
	for i, tag := range old.tags {
		if tag != 0 {
			s.put(tag, old.slots[i])
		}
	}
}

// place returns the place of a slot that the segment holds.
func (s *segment) place(tag uint16, slot uint32) int {
	at := s.home(tag)
	for s.tags[at] != tag || s.slots[at] != slot {
		at = s.next(at)
	}
	return at
}

// renumber gives a slot that the index holds another number.
func (x *index) renumber(hash uint64, from, to uint32) {
	s := x.segment(hash)
	s.slots[s.place(tagOf(hash), from)] = to
}

// remove removes a slot that the index holds. Those behind it move up, so that no search ends early (Knuth, vol. 3, 6.4, algorithm R).
func (x *index) remove(hash uint64, slot uint32) {
	s := x.segment(hash)
	n := len(s.tags)
	at := s.place(tagOf(hash), slot)
	for j := s.next(at); s.tags[j] != 0; j = s.next(j) {
		if (j-s.home(s.tags[j])+n)%n >= (j-at+n)%n {
			s.tags[at], s.slots[at] = s.tags[j], s.slots[j]
			at = j
		}
	}
	s.tags[at] = 0
	s.used--
	if n > 32 && s.used < n/4 {
		s.resize(n / 2)
	}
}

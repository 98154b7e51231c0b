package merge

import "github.com/509da70d/floodgate/schemas"

// sampled is how many entries Replace looks at. A flooding caller's entry is safe once it has counted two requests, and
// among eight entries of a full table there is nearly always a single request that can go instead.
const sampled = 8

// Replace makes room for e, which Add refused, by dropping the smallest of a few entries if that is no greater than e,
// and otherwise drops e. Either way it returns how many requests were dropped. So when there are more callers than
// room, it is the callers seen once who are lost, and never the one who floods.
func (t *Table) Replace(hash uint64, e *schemas.Entry) (dropped uint64) {
	return t.ReplaceKey(hash, e, false)
}

// ReplaceKey is Replace for an entry that AddKey refused.
func (t *Table) ReplaceKey(hash uint64, e *schemas.Entry, addr bool) (dropped uint64) {
	n := len(t.entries)
	need := keyLen(e)
	victim := -1
	for i := range min(sampled, n) {
		at := (t.hand + i) % n
		s := &t.entries[at]
		fits := int(s.room) >= need || need <= cap(t.arena)-len(t.arena)
		if fits && s.count <= e.Count && (victim < 0 || s.count < t.entries[victim].count) {
			victim = at
		}
	}
	t.hand += sampled
	if victim < 0 {
		return uint64(e.Count)
	}
	s := &t.entries[victim]
	dropped = uint64(s.count)
	t.forget(victim)
	off, room := int(s.off), int(s.room)
	if room < need {
		off, room = t.carve(need)
	}
	shape := shapeOf(e, addr)
	*s = t.write(hash, shape, e, off, room)
	at, _ := t.find(hash, shape, e)
	t.index[at] = uint32(victim + 1)
	t.requests += uint64(e.Count) - dropped
	return dropped
}

// forget takes entry i out of the index, and moves back what had been pushed on by it (Knuth, TAOCP 3, algorithm 6.4R).
func (t *Table) forget(i int) {
	mask := len(t.index) - 1
	hole := t.home(i)
	for t.index[hole] != uint32(i+1) {
		hole = (hole + 1) & mask
	}
	for at := (hole + 1) & mask; t.index[at] != 0; at = (at + 1) & mask {
		// The entry at `at` may fill the hole unless its home lies behind the hole, cyclically.
		if home := t.home(int(t.index[at]) - 1); (at-home)&mask >= (at-hole)&mask {
			t.index[hole] = t.index[at]
			hole = at
		}
	}
	t.index[hole] = 0
}

// home is where entry i would be in an empty index.
func (t *Table) home(i int) int {
	return int(t.entries[i].hash) & (len(t.index) - 1)
}

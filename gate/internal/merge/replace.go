package merge

import "github.com/509da70d/floodgate/schemas"

// sampled is how many entries Replace looks at. The entry of a flooding caller is safe when it counts two requests: among
// eight entries of a full table, nearly always one counts a single request and can be dropped instead.
const sampled = 8

// Replace makes room for e, which Add refused. It drops the smallest of a few entries if that one is no greater than e, and
// drops e otherwise. In both cases it returns how many requests were dropped. So if there are more callers than room, callers
// that sent one request are lost, and never a caller that floods.
func (t *Table) Replace(hash uint64, e *schemas.Entry) (dropped uint64) {
	return t.ReplaceKey(hash, e, false)
}

// ReplaceKey is Replace for an entry that AddKey refused.
func (t *Table) ReplaceKey(hash uint64, e *schemas.Entry, addr bool) (dropped uint64) {
	n := len(t.entries)
	need := keyLen(e)
	victim := -1
	for i := range min(sampled, n) {
		at := (t.nextVictim + i) % n
		s := &t.entries[at]
		fits := int(s.room) >= need || need <= cap(t.arena)-len(t.arena)
		if fits && s.count <= e.Count && (victim < 0 || s.count < t.entries[victim].count) {
			victim = at
		}
	}
	t.nextVictim += sampled
	if victim < 0 {
		return uint64(e.Count)
	}
	s := &t.entries[victim]
	dropped = uint64(s.count)
	t.unindex(victim)
	off, room := int(s.off), int(s.room)
	if room < need {
		off, room = t.allocKey(need)
	}
	shape := shapeOf(e, addr)
	*s = t.write(hash, shape, e, off, room)
	at, _ := t.find(hash, shape, e)
	t.place(victim, at)
	t.requests += uint64(e.Count) - dropped
	return dropped
}

// unindex removes entry i from the index, and moves later entries back into the hole (Knuth, TAOCP 3, algorithm 6.4R).
func (t *Table) unindex(i int) {
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

// home returns the place of entry i in an empty index.
func (t *Table) home(i int) int {
	return int(t.entries[i].hash) & (len(t.index) - 1)
}

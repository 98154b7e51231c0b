package window

import "github.com/509da70d/floodgate/analyzer/integer"

// Part is a piece of a window: all of a fixed window, a slot of a sliding one, an entry of a log, or what is in a bucket.
type Part struct {
	From   int64 // Unix nanoseconds: its entries came at this time or later. For a bucket: the time of its newest entry
	To     int64 // Unix nanoseconds: its entries came before this time. For a bucket: just after the time that was asked about
	Leaves int64 // Unix nanoseconds: from here on the window does not hold it any more. For a bucket: when it has drained
	Weight int64 // more than 0. For a bucket: its fill, rounded up
}

// newestOf returns the newest parts, at most limit of them, the oldest first, and how many older ones there are. There are n parts; at
// returns the part of an age, which is 0 for the newest. Parts without weight are left out.
func newestOf(limit, n int, at func(age int) Part) (parts []Part, more int) {
	for age := range n {
		p := at(age)
		switch {
		case p.Weight <= 0:
		case len(parts) < limit:
			parts = append(parts, p)
		default:
			more++
		}
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return parts, more
}

// Parts returns the window.
func (f fixed) Parts(s State, limit, t int64, maxParts int) (parts []Part, more int) {
	c := f.View(s, limit, t)
	w := f.bounds(c.Start)
	return newestOf(maxParts, 1, func(int) Part { return Part{From: w.start, To: w.end, Leaves: w.end, Weight: c.Total} })
}

// Parts returns the slots that are in the window.
func (w sliding) Parts(s State, _, t int64, maxParts int) (parts []Part, more int) {
	if len(s) == 0 {
		return nil, 0
	}
	kept := len(s) - 1
	if index := integer.FloorDiv(t, w.slot); index > s[0] {
		steps := since(index, s[0])
		if steps > uint64(w.slots) {
			return nil, 0
		}
		kept = min(kept, int(w.slots-int64(steps))+1)
	}
	return newestOf(maxParts, kept, func(age int) Part {
		index := sub(s[0], int64(age))
		return Part{
			From: mul(index, w.slot), To: mul(add(index, 1), w.slot), Leaves: mul(add(index, w.slots+1), w.slot), Weight: s[1+age],
		}
	})
}

// Parts returns the entries that are in the window; those of equal time are one.
func (l log) Parts(s State, _, t int64, maxParts int) (parts []Part, more int) {
	if len(s) == 0 {
		return nil, 0
	}
	first, _ := l.live(s, max(t, s[len(s)-2]))
	return newestOf(maxParts, (len(s)-first)/2, func(age int) Part {
		i := len(s) - 2 - 2*age
		return Part{From: s[i], To: add(s[i], 1), Leaves: add(s[i], l.length), Weight: s[i+1]}
	})
}

// Parts returns what is in the bucket.
func (g gcra) Parts(s State, limit, t int64, maxParts int) (parts []Part, more int) {
	if len(s) == 0 {
		return nil, 0
	}
	at := max(s[1], t)
	return newestOf(maxParts, 1, func(int) Part {
		return Part{From: s[1], To: add(at, 1), Leaves: s[0], Weight: g.View(s, limit, t).Total}
	})
}

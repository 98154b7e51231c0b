package window

// Coarse is an Algorithm in little memory: its states have at most MaxCoarse integers. Seen from the time of the newest
// entry or from later, a coarse state never counts more of the same entries than a state of the full algorithm. A full table
// keeps such states of callers without a row. Fixed windows are their own Coarse and lose nothing.
type Coarse interface {
	// Add, View, Expiry and Valid are as in Algorithm. A Count's Until is after t if and only if the window is surely full.
	// How long it stays full, only the full algorithm can say.
	Add(s State, limit, t, weight int64) (State, Count)
	View(s State, limit, t int64) Count
	Expiry(s State) int64
	Valid(s State) bool
	// Refine returns a state of the full algorithm that counts what the coarse state s does at t, which is the time of
	// the newest entry or later. It may share memory with s.
	Refine(s State, limit, t int64) State
	// Coarsen returns the coarse state for a state of the full algorithm, as of the same t. It may share memory with s.
	Coarsen(s State, t int64) State
}

// MaxCoarse is the number of integers that a state of a Coarse has at most.
const MaxCoarse = 4

// itself is the Coarse of an algorithm whose states are short.
type itself struct{ Algorithm }

func (itself) Refine(s State, _, _ int64) State { return s }

func (itself) Coarsen(s State, _ int64) State { return s }

// halves is the Coarse of windows that move with time. It keeps up to two pairs {time, weight}, oldest first. A pair is the
// weight that came within half a window, at the time of its first entry. So weight leaves no later than it would, and an
// entry is forgotten between half a window and a whole one after it came.
type halves struct {
	full   Algorithm
	length int64
}

func (h halves) Add(s State, limit, t, weight int64) (State, Count) {
	if weight <= 0 {
		return s, h.View(s, limit, t)
	}
	switch n := len(s); {
	case n == 0:
		s = append(s, t, weight)
	case t >= s[n-2]:
		if since(t, s[n-2]) < uint64(h.length/2+1) {
			s[n-1] = add(s[n-1], weight)
			break
		}
		s = append(append(s[:0], s[n-2:]...), t, weight)
	case n == 4 && t >= s[0]:
		s[1] = add(s[1], weight)
	case n == 2 && since(s[0], t) < uint64(h.length):
		s = append(s[:0], t, weight, s[0], s[1])
	default:
		c := h.View(s, limit, t)
		c.Place = Late
		return s, c
	}
	return s, h.View(s, limit, t)
}

func (h halves) View(s State, limit, t int64) Count {
	at := t
	if len(s) > 0 {
		at = max(t, s[len(s)-2])
	}
	c := Count{Start: sub(at, h.length), Until: t}
	for i := 0; i < len(s); i += 2 {
		if h.live(s[i], at) {
			c.Total = add(c.Total, s[i+1])
		}
	}
	if c.Total >= max(limit, 1) {
		c.Until = add(t, 1)
	}
	return c
}

func (h halves) Expiry(s State) int64 { return log{length: h.length}.Expiry(s) }

func (h halves) Valid(s State) bool {
	switch len(s) {
	case 0:
		return true
	case 2:
		return s[1] > 0
	case 4:
		return s[0] < s[2] && s[1] > 0 && s[3] > 0
	}
	return false
}

// live reports whether weight as of t is still in the window at a time.
func (h halves) live(t, at int64) bool { return since(at, t) < uint64(h.length) }

func (h halves) Refine(s State, limit, t int64) State {
	var full State
	for i := 0; i < len(s); i += 2 {
		if h.live(s[i], max(t, s[len(s)-2])) {
			full, _ = h.full.Add(full, limit, s[i], s[i+1])
		}
	}
	return full
}

package gate

import "time"

// otherIDs are the ids of a request's callers under the second of two secrets. Nothing is recorded under these ids. But
// closures may name them: those that were decided before the secrets changed places, and those that follow from the
// requests of a server that has the secrets in the other order. These closures are in force.
type otherIDs struct {
	n  int
	at [MaxCallers]otherID
}

// otherID is the id of a caller under the second secret.
type otherID struct {
	caller int32 // index of the caller
	hash   uint64
	id     string
}

// hashedID returns the id of the caller to be added, hashed with the first secret of its gate, and keeps the id under the
// second one.
func (c *Callers) hashedID(g *Gate, id string) string {
	if g.secret.Rotating() {
		if c.otherIDs == nil {
			c.otherIDs = new(otherIDs)
		}
		o := &c.otherIDs.at[c.otherIDs.n]
		o.caller, o.id = c.n, g.secret.Other(id)
		o.hash = g.sum(o.id)
		c.otherIDs.n++
	}
	return g.secret.ID(id)
}

// concernsOtherIDs reports whether the table may hold one of the ids.
func (t *table) concernsOtherIDs(o *otherIDs) bool {
	for i := range o.n {
		if t.mayHold(o.at[i].hash) {
			return true
		}
	}
	return false
}

// checkOtherIDs is checkCallers for these ids. It merges what it finds into *found.
func (s *Set) checkOtherIDs(v *Verdict, t *table, c *Callers, now time.Time, found *finding) {
	for i := range c.otherIDs.n {
		o := &c.otherIDs.at[i]
		if !t.mayHold(o.hash) {
			continue
		}
		g := c.at[o.caller].gate
		cc := t.find(o.hash, g.tag(), o.id)
		if cc == nil {
			continue
		}
		f := finding{gate: g}
		s.judge(&f, t, cc, now)
		v.note(int(o.caller), &f)
		found.merge(&f)
	}
}

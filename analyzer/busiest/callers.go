package busiest

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/schemas"
)

// Callers is a sample of what callers of a partition send, whether rules count them or not: the busiest of those that are admitted, and
// of those that are blocked. New makes one. One goroutine may use it.
type Callers struct {
	next        int   // admitted entries until the next that is sampled
	nextBlocked int64 // blocked requests until the next that is sampled
	pace        pace  // of admitted entries
	paceBlocked pace  // of blocked requests
	random      integer.Random
	admitted    *tally // nil if nothing is sampled
	blocked     *tally
}

// New returns an empty sample, which stays empty unless it is on. Nobody else may know the seed.
func New(on bool, seed uint64) Callers {
	if !on {
		return Callers{next: math.MaxInt, nextBlocked: math.MaxInt64}
	}
	return Callers{
		next: 1, nextBlocked: 1, pace: newPace(), paceBlocked: newPace(), random: integer.Random(seed), admitted: newTally(), blocked: newTally(),
	}
}

// distance draws how far away the next sampled entry is: if it were always as far, it would always be the same one of the callers of
// a request. The mean is every.
func (c *Callers) distance(every int64) int64 { return 1 + int64(c.random.Next()%uint64(2*every-1)) }

// Admitted samples an entry that was admitted, at log time now. hash is of the caller's id, and nobody else can compute it.
func (c *Callers) Admitted(e *schemas.Entry, hash uint64, now int64) {
	if c.next--; c.next <= 0 {
		c.sampleAdmitted(e, hash, now)
	}
}

// Blocked samples an entry that was blocked. Its arguments are those of Admitted.
func (c *Callers) Blocked(e *schemas.Entry, hash uint64, now int64) {
	if c.nextBlocked -= int64(e.Count); c.nextBlocked <= 0 {
		c.sampleBlocked(e, hash, now)
	}
}

// sampleAdmitted adds an entry that counts for as many of its size as the pace says.
func (c *Callers) sampleAdmitted(e *schemas.Entry, hash uint64, now int64) {
	count := float64(e.Count)
	c.admitted.add(hash, e.Kind, e.ID, float64(c.pace.every)*count, c.pace.variance()*count*count, now)
	c.pace.passed(c.pace.every, now)
	c.next = int(c.distance(c.pace.every))
}

// sampleBlocked adds an entry of blocked requests. Gates put many requests of a caller that they block into one entry. A large entry is
// always sampled, and counts exactly.
func (c *Callers) sampleBlocked(e *schemas.Entry, hash uint64, now int64) {
	if c.blocked == nil {
		c.nextBlocked = math.MaxInt64
		return
	}
	p := &c.paceBlocked
	weight, variance := int64(e.Count), 0.
	if weight >= 2*p.every {
		c.nextBlocked += weight // the draws of smaller entries do not depend on large ones
	} else {
		for weight = 0; c.nextBlocked <= 0; weight += p.every {
			c.nextBlocked += c.distance(p.every)
			variance += p.variance()
		}
	}
	c.blocked.add(hash, e.Kind, e.ID, float64(weight), variance, now)
	p.passed(weight, now)
	c.nextBlocked = min(c.nextBlocked, 2*p.every-1) // the pace may be another one now
}

// Lists returns the busiest callers, admitted and blocked ones, in no particular order: their rates are as of now in Unix
// nanoseconds, or of log time if that is later. Kinds that no rule counts are among them.
//
// If no more than budget come in a second, all are counted. Otherwise rates are of a sample, and each has an error: with one of 32, about
// ±√(64 r / 29) of r requests a second, which is ±9 % of 350 and ±90 % of 5. Blocked requests that came in entries of 64 or more are
// counted exactly. Each list has at most maxCallers.
func (c *Callers) Lists(now int64) (admitted, blocked List) {
	return c.admitted.list(now, float64(c.pace.coarse)), c.blocked.list(now, float64(c.paceBlocked.coarse))
}

package gate

import "time"

// Policy says what holds while decisions are stale. A partition of decisions is stale when it has sent heartbeats before,
// but none for Options.StaleAfter.
type Policy uint8

// Policies. The zero value holds.
const (
	Hold   Policy = iota // closures stay until they end; none are added
	Open                 // closures decided in a stale partition are ignored
	Closed               // while any partition is stale, all callers are refused: a Set does not know which callers it has
	Local                // while any partition is stale, Options.Local decides on callers that are not closed
)

// String returns "hold", "open", "closed", "local" or "unknown".
func (p Policy) String() string {
	switch p {
	case Hold:
		return "hold"
	case Open:
		return "open"
	case Closed:
		return "closed"
	case Local:
		return "local"
	}
	return "unknown"
}

// Limiter decides on callers by itself. It must not block or allocate, and must be safe for concurrent use. The hash is of
// kind and id, and seeded per process: a Limiter may treat callers with the same hash as one caller.
type Limiter interface {
	Allow(kind string, hash uint64, now time.Time) bool
}

// staleRetry is the RetryAfter of requests that are refused because decisions are stale: the time between two heartbeats.
const staleRetry = time.Second

// watchful reports whether answers depend on staleness for callers that are not closed.
func (s *Set) watchful() bool { return s.policy == Closed || s.policy == Local }

// refusesStale reports whether a caller that is not closed is refused because decisions are stale.
func (s *Set) refusesStale(g *Gate, hash uint64, now time.Time) bool {
	return s.liveness.anyStale(now) && (s.policy == Closed || !s.local.Allow(g.kind, hash, now))
}

// checkStale refuses a request whose callers are not closed, if decisions are stale and the policy refuses one of them.
func (s *Set) checkStale(v *Verdict, c *Callers, now time.Time) {
	for i := range c.n {
		if k := &c.at[i]; s.refusesStale(k.gate, k.hash, now) {
			*v = Verdict{Closed: true, Stale: true, Shadow: v.Shadow, RetryAfter: staleRetry, Until: now.Add(staleRetry)}
			return
		}
	}
}

package gate

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Held is one closure of a caller, or one share, as a Set holds it.
type Held struct {
	Rule           string
	Mode           schemas.Mode
	CloseAt, Until time.Time // of this process: Until includes the jitter
	Early          bool      // predicted, and not counted yet
	Held           bool      // early because of requests in flight: requests that it refuses are not recorded as blocked early
	Share          bool      // it gives permits instead of closing
	Ignored        bool      // its partition is stale, and the policy is Open
	Limit          int64     // as decided
	Window         time.Duration
	Partition      PartitionStatus // that it came from
}

// InForce reports whether it covers a time and is not ignored.
func (h *Held) InForce(now time.Time) bool {
	return !h.Ignored && !now.Before(h.CloseAt) && now.Before(h.Until)
}

// Holds returns what the Set holds about a caller at the time now, for people: closures that are in force or to come, and shares. Its
// id is canonical, as decisions have it. It counts nothing and spends no permits. It takes a lock, and allocates.
func (s *Set) Holds(caller schemas.Caller, now time.Time) []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, t := s.gates[caller.Kind], s.writer.table
	if g == nil || t == nil {
		return nil
	}
	subject := g.subject(caller.ID)
	_, cc := s.writer.find(g.sum(subject.key), subject)
	var list []Held
	for i := range cc.len() {
		c := cc.closure(i)
		if c.until <= now.UnixNano() {
			continue
		}
		terms := t.arena.termsOf(c)
		h := Held{
			Rule: terms.rule, Mode: schemas.ModeEnforce, CloseAt: time.Unix(0, c.closeAt), Until: time.Unix(0, c.until),
			Early: c.early(), Held: c.held(), Share: c.share(), Limit: terms.limit, Window: time.Duration(terms.window),
			Partition: PartitionStatus{Partition: int(terms.partition)},
		}
		if c.shadow() {
			h.Mode = schemas.ModeShadow
		}
		if p := int(terms.partition); 0 <= p && p < len(s.liveness.partitions()) {
			h.Partition = s.liveness.status(p, now)
		}
		h.Ignored = s.policy == Open && h.Partition.Freshness == Stale
		list = append(list, h)
	}
	return list
}

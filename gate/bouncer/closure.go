package bouncer

import (
	"math"
	"net/netip"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// never is the time at which nothing happens.
const never = math.MaxInt64

// activeClosure is the closure that a bouncer enforces. The zero value is none.
type activeClosure struct {
	until     int64 // Unix nanoseconds
	rule      string
	partition int32
}

// Reasons for which closures are left out, as Stats counts them.
const (
	leftKind    = iota // the caller is of another kind than ip
	leftAddress        // the id is no address in canonical form
	leftShadow         // the mode is shadow
	leftEarly          // it is predicted only
	leftShort          // shorter than Options.MinClosure
	leftReasons
)

// addressOf returns the address of a caller, and whether it has one: a canonical one, so that no two callers have the same.
func addressOf(c schemas.Caller) (netip.Addr, bool) {
	if c.Kind != schemas.KindIP {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(c.ID)
	return addr, err == nil && addr.Zone() == "" && schemas.CanonicalAddr(addr) == addr && addr.String() == c.ID
}

// spans returns the closures of a decision that are counted, and not only predicted. If the second begins no later than the first ends,
// both are joined into one. Spans that are not used are zero.
func spans(d *schemas.Decision) (all [2]schemas.Span) {
	if !d.Early && d.Until > d.CloseAt {
		all[0] = schemas.Span{CloseAt: d.CloseAt, Until: d.Until}
	}
	if next := d.Next; !next.Early && next.Until > next.CloseAt {
		if all[0].Until > 0 && next.CloseAt <= all[0].Until {
			all[0].Until = max(all[0].Until, next.Until)
		} else {
			all[1] = next
		}
	}
	return all
}

// lastsAtLeast reports whether a span lasts at least as long as shortest.
func lastsAtLeast(s schemas.Span, shortest time.Duration) bool {
	return s.Until > s.CloseAt && (s.CloseAt < 0 || s.Until-s.CloseAt >= int64(shortest))
}

// longestInForce returns the closure to enforce at now, of the decisions about one caller: of those in force, the one that ends last. It also
// returns when the answer may change although no decision comes: when this closure ends, or another one begins.
func longestInForce(ds []schemas.Decision, now int64, shortest time.Duration, rules ruleFilter) (best activeClosure, nextCheck int64) {
	nextCheck = never
	for i := range ds {
		d := &ds[i]
		if d.Mode != schemas.ModeEnforce || !rules.pass(d.Rule) {
			continue
		}
		for _, s := range spans(d) {
			switch {
			case !lastsAtLeast(s, shortest) || s.Until <= now:
			case s.CloseAt > now:
				nextCheck = min(nextCheck, s.CloseAt)
			case s.Until > best.until:
				best = activeClosure{s.Until, d.Rule, d.Partition}
			}
		}
	}
	if best.until > 0 {
		nextCheck = min(nextCheck, best.until)
	}
	return best, nextCheck
}

// exclusion returns why bouncers never get an item for a decision. ok is false if they may get one.
func exclusion(d *schemas.Decision, shortest time.Duration) (reason int, ok bool) {
	if d.Caller.Kind != schemas.KindIP {
		return leftKind, true
	}
	if _, isAddress := addressOf(d.Caller); !isAddress {
		return leftAddress, true
	}
	if d.Mode != schemas.ModeEnforce {
		return leftShadow, true
	}
	all := spans(d)
	if all == ([2]schemas.Span{}) {
		return leftEarly, true
	}
	return leftShort, !lastsAtLeast(all[0], shortest) && !lastsAtLeast(all[1], shortest)
}

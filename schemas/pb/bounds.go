package pb

import (
	"errors"
	"fmt"
	"math"

	"github.com/509da70d/floodgate/schemas"
)

func validateDecision(d *schemas.Decision) error {
	if d.Mode != schemas.ModeEnforce && d.Mode != schemas.ModeShadow {
		return fmt.Errorf("%w: got %d", ErrMode, d.Mode)
	}
	if len(d.Rule) > MaxRule {
		return fmt.Errorf("%w: got a rule's name of %d bytes, want at most %d", ErrBounds, len(d.Rule), MaxRule)
	}
	if d.Held && !d.Early {
		return fmt.Errorf("%w: got a closure that requests in flight hold, and that is not early", ErrBounds)
	}
	if err := validatePartition(d.Partition); err != nil {
		return err
	}
	if err := validateNext(d); err != nil {
		return err
	}
	if err := validateShare(d.Share); err != nil {
		return err
	}
	return d.Caller.Validate()
}

// validateNext judges the closures as they are written, before they are clamped: a closure that begins before the one before it ends is
// refused, however long that one is. A decision that opens has no Next: for an open caller, a predicted closure is the first one.
func validateNext(d *schemas.Decision) error {
	next := d.Next
	switch {
	case next == (schemas.Span{}):
		return nil
	case d.Until <= d.CloseAt:
		return fmt.Errorf("%w: got a next closure from %d in a decision that opens, want none", ErrBounds, next.CloseAt)
	case next.CloseAt < d.Until:
		return fmt.Errorf("%w: got a next closure from %d, want it from %d on, where the first ends", ErrBounds, next.CloseAt, d.Until)
	case next.Until <= next.CloseAt:
		return fmt.Errorf("%w: got a next closure from %d until %d, want it to end after it begins", ErrBounds, next.CloseAt, next.Until)
	}
	return nil
}

func validateShare(s *schemas.Share) error {
	if s == nil {
		return nil
	}
	switch {
	case s.Period <= 0 || s.Period > int64(schemas.MaxClosure):
		return fmt.Errorf("%w: got a share with periods of %d ns, want 1 to %d", ErrBounds, s.Period, int64(schemas.MaxClosure))
	case s.Permits < 0:
		return fmt.Errorf("%w: got a share of %d permits, want 0 or more", ErrBounds, s.Permits)
	case s.Demand <= 0:
		return fmt.Errorf("%w: got a share by a demand of %d, want 1 or more", ErrBounds, s.Demand)
	case !bounded(s.DemandFrom, s.DemandUntil):
		return fmt.Errorf("%w: got a share by the demand from %d until %d, want more than 0 ns and at most %d",
			ErrBounds, s.DemandFrom, s.DemandUntil, int64(schemas.MaxClosure))
	case !bounded(s.From, s.Until):
		return fmt.Errorf("%w: got a share from %d until %d, want more than 0 ns and at most %d",
			ErrBounds, s.From, s.Until, int64(schemas.MaxClosure))
	}
	return nil
}

// bounded reports whether until is after from, and at most schemas.MaxClosure after it.
func bounded(from, until int64) bool { return from < until && clampUntil(from, until) == until }

func validateClaim(c *schemas.Claim) error {
	if len(c.Owner) > MaxOwner {
		return fmt.Errorf("%w: got an owner of %d bytes, want at most %d", ErrBounds, len(c.Owner), MaxOwner)
	}
	return validatePartition(c.Partition)
}

func validateHeartbeat(h *schemas.Heartbeat) error {
	if len(h.API) > MaxAPI {
		return fmt.Errorf("%w: got an address of %d bytes, want at most %d", ErrBounds, len(h.API), MaxAPI)
	}
	return validatePartition(h.Partition)
}

func validatePartition(partition int32) error {
	if partition < 0 {
		return fmt.Errorf("%w: got partition %d, want 0 or more", ErrBounds, partition)
	}
	return nil
}

// clampUntil returns until, but at most schemas.MaxClosure after closeAt.
func clampUntil(closeAt, until int64) int64 {
	const longest = int64(schemas.MaxClosure)
	if closeAt > math.MaxInt64-longest {
		return until // which is no further away
	}
	return min(until, closeAt+longest)
}

// cleanRate returns 0 for what is no rate and no share of a limit: evidence explains a decision, and is no reason to drop it.
func cleanRate(rate float64) float64 {
	if rate >= 0 && rate <= math.MaxFloat64 {
		return rate
	}
	return 0
}

// Reason returns the metric label for an error of this package: a short word, from a fixed list. It is "other" for
// foreign errors and "" for nil.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrMalformed):
		return "malformed"
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case errors.Is(err, ErrBounds):
		return "bounds"
	case errors.Is(err, ErrMode):
		return "mode"
	}
	return schemas.Reason(err)
}

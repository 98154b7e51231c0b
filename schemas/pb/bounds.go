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
	if err := validatePartition(d.Partition); err != nil {
		return err
	}
	return d.Caller.Validate()
}

func validateClaim(c *schemas.Claim) error {
	if len(c.Owner) > MaxOwner {
		return fmt.Errorf("%w: got an owner of %d bytes, want at most %d", ErrBounds, len(c.Owner), MaxOwner)
	}
	return validatePartition(c.Partition)
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

// cleanRate returns 0 for what is no rate: evidence explains a decision, and is no reason to drop it.
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

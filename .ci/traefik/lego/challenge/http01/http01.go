// Package http01 holds the options of a challenge that is never made.
package http01

import "time"

// PathPrefix is where a challenge is answered.
const PathPrefix = "/.well-known/acme-challenge/"

// ChallengeOption does nothing.
type ChallengeOption func()

// SetDelay returns no option.
func SetDelay(time.Duration) ChallengeOption { return nil }

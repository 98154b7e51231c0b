// Package tlsalpn01 holds the options of a challenge that is never made.
package tlsalpn01

import (
	"errors"
	"time"
)

// ACMETLS1Protocol is the name of the challenge in ALPN.
const ACMETLS1Protocol = "acme-tls/1"

// ChallengeOption does nothing.
type ChallengeOption func()

// SetDelay returns no option.
func SetDelay(time.Duration) ChallengeOption { return nil }

// ChallengeBlocks fails.
func ChallengeBlocks(_, _ string) (cert, key []byte, err error) {
	return nil, nil, errors.ErrUnsupported
}

package notify

import (
	"math/rand/v2"
	"time"
)

// How a call is tried again.
const (
	minPause    = 5 * time.Second
	maxPause    = time.Hour
	maxAge      = 24 * time.Hour // of the newest event of a call that is tried again
	minAttempts = 5              // that even an older one has
)

// longestPause returns the upper bound of the pause after a number of failed attempts: 5 s after the first, and twice as long after
// each, up to an hour.
func longestPause(attempts int) time.Duration {
	return min(minPause<<min(max(attempts-1, 0), 10), maxPause)
}

// pause returns how long to wait after a number of failed attempts: the longest pause, less up to a fifth, so that the calls of many
// callers are not all tried at one moment. A receiver that asks for more gets it.
func pause(attempts int, asked time.Duration) time.Duration {
	longest := longestPause(attempts)
	return max(longest-rand.N(longest/5), asked) //nolint:gosec // not a secret
}

// expired reports whether a call is dropped after a number of failed attempts; written is when its newest event was written.
func expired(attempts int, written, now time.Time) bool {
	return attempts >= minAttempts && now.Sub(written) >= maxAge
}

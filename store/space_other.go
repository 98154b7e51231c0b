//go:build !linux && !darwin && !freebsd

package store

import "math"

// freeBytes does not know here; a full disk is not noticed in time.
func freeBytes(string) (int64, error) { return math.MaxInt64, nil }

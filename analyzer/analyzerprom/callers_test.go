//go:build !race

package analyzerprom_test

import "os"

// manyCallers is how many callers TestSeriesAreBounded counts at first.
func manyCallers() int {
	if os.Getenv("FLOODGATE_LONG") != "" {
		return 1_000_000
	}
	return 20_000
}

//go:build race

package analyzerprom_test

// manyCallers is how many callers TestSeriesAreBounded counts at first: few, as one goroutine counts them, ten times as slowly.
func manyCallers() int { return 20_000 }

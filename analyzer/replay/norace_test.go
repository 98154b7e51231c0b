//go:build !race

package replay

// underRace is whether the race detector is on.
const underRace = false

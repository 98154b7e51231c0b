//go:build race

package replay

// underRace is whether the race detector is on, which makes everything ten times slower.
const underRace = true

package limit

import (
	"fmt"
	"math/bits"
	"testing"
	"time"
)

// chosenKeys returns n keys that an attacker found: in a Keyed of its own, all of them are in one part of 192.
func chosenKeys(n int) (keys []string) {
	mine := NewKeyed(8, NewTokenBucket(1, time.Second, 1))
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprint("chosen ", i)
		if part, _ := bits.Mul64(mine.hash(key), 64*mine.sets); part == 7 {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestChosenKeysDoNotShareASet: keys that an attacker chose, by the set that they have in another process, displace each
// other and others no more than random ones.
func TestChosenKeysDoNotShareASet(t *testing.T) {
	const n = 2000
	for name, like := range kinds(1, time.Hour) {
		t.Run(name, func(t *testing.T) {
			displaced := func(keys func(i int) string) uint64 {
				k := NewKeyed(n, like)
				for i := range n {
					k.AllowN(noon(), keys(i), 1)
				}
				return k.Stats().Displaced
			}
			chosen := chosenKeys(n)
			random := displaced(func(i int) string { return fmt.Sprint("random ", i) })
			if got := displaced(func(i int) string { return chosen[i] }); got > 3*random+20 {
				t.Errorf("got %d displaced of %d chosen keys, of random ones %d", got, n, random)
			}
		})
	}
}

// BenchmarkChosenInput asks for keys of which there are as many as expected, for ten times as many, and for chosen ones.
func BenchmarkChosenInput(b *testing.B) {
	const n = 1 << 13
	random, many := make([]string, n), make([]string, 10*n)
	for i := range many {
		many[i] = fmt.Sprint("random ", i)
	}
	copy(random, many)
	for name, keys := range map[string][]string{"random": random, "chosen": chosenKeys(n), "ten times as many": many} {
		b.Run(name, func(b *testing.B) {
			k, at := NewKeyed(n, NewTokenBucket(1, time.Second, 1)), noon()
			for i := 0; b.Loop(); i++ {
				k.AllowN(at, keys[i%len(keys)], 1)
			}
		})
	}
}

// Package keyhash contains the hash with which a gate and a recorder look callers up. It maps short strings to 64 bits,
// under a key that is drawn at random, so that an outsider cannot choose strings that collide.
//
// It is a multiply-and-fold hash (Wang Yi, wyhash, 2019), which Go's runtime uses too if a processor has no AES. Each step
// takes sixteen bytes, and folds the two halves of one 128-bit product together. All constants are drawn from the system's
// randomness; none is public. That protects against chosen keys as well as the runtime's own maps are protected. There is no
// proof. But an attacker has nothing to compute collisions from, because the hash is written nowhere and never leaves the
// process. And a collision would only slow a lookup down. It would not close another caller's gate, because keys are
// compared.
//
// Why not hash/maphash? For 22 bytes it takes twice as long (5.0 against 2.5 ns). And its result comes three nanoseconds
// later, and the loads that follow wait for it. A whole lookup that misses takes seven nanoseconds.
//
// # Chosen input
//
// The cost of an id depends on its length only. Chosen ids behave like random ones: a multiplication gives zero only if the
// bytes are equal to a part of the key, one try in 2^64. The length is hashed too, so that short ids of different lengths
// differ.
package keyhash

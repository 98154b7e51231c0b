// Package keyhash holds the hash by which a gate and a recorder look callers up: short strings to 64 bits, under a key
// that is drawn at random, so that nobody outside can choose strings that collide.
//
// It is of the multiply-and-fold kind (Wang Yi, wyhash, 2019), which Go's runtime uses too where a processor has no AES:
// sixteen bytes a step, each step the two halves of one 128-bit product folded together. Every constant of it is drawn
// from the system's randomness, none is public. What that buys is what the runtime's own maps have against chosen keys:
// no proof, but nothing to compute collisions from, for the hash is never written anywhere and never leaves the process;
// and who found one all the same would slow a lookup down, not close somebody else's gate, because keys are compared.
//
// Why not hash/maphash: of 22 bytes it takes twice as long (5.0 against 2.5 ns), and three nanoseconds longer until the
// result is there, which the loads that follow wait for. A lookup that misses takes seven.
package keyhash

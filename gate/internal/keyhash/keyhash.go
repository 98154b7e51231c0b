package keyhash

import (
	"hash/maphash"
	"math/bits"
)

// Key is a secret. New draws one. The zero value hashes too, but everyone can find strings that collide under it. A Key does
// not change, and any number of goroutines may use it.
type Key struct{ a, b, c, d, e uint64 }

// New draws a key at random.
func New() Key {
	seed := maphash.MakeSeed()
	draw := func(s string) uint64 { return maphash.String(seed, s) }
	return Key{a: draw("a"), b: draw("b"), c: draw("c"), d: draw("d"), e: draw("e")}
}

// For returns another key, made of this one and a name. The hashes of a string under the keys of two names are independent.
func (k Key) For(name string) Key {
	k.e ^= k.Sum(name)
	return k
}

// Sum returns the hash of s under the key.
func (k *Key) Sum(s string) uint64 {
	n, h := uint64(len(s)), uint64(0)
	var x, y uint64
	switch {
	case len(s) > 16:
		tail := s[len(s)-16:] // may overlap with bytes that the loop hashes
		h = fold(load8(s)^k.c, load8(s[8:])^k.d)
		for s = s[16:]; len(s) > 16; s = s[16:] {
			h = fold(load8(s)^k.c, load8(s[8:])^h)
		}
		x, y = load8(tail), load8(tail[8:])
	case len(s) >= 8:
		x, y = load8(s), load8(s[len(s)-8:])
	case len(s) >= 4:
		x, y = load4(s), load4(s[len(s)-4:])
	case len(s) > 0:
		x = uint64(s[0])<<16 | uint64(s[len(s)/2])<<8 | uint64(s[len(s)-1])
	}
	return fold(k.e^n, h^fold(x^k.a, y^k.b))
}

// Sum16 returns the hash of the sixteen bytes that are x and y, little-endian.
func (k *Key) Sum16(x, y uint64) uint64 { return fold(k.e^16, fold(x^k.a, y^k.b)) }

// fold multiplies and returns the exclusive or of the product's halves.
func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

// load8 returns the first eight bytes of s as a number. The compiler makes one load of it.
func load8(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func load4(s string) uint64 {
	_ = s[3]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

package keyhash

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// plain is Sum in its simplest form: with integers of any size, and byte by byte.
func plain(k Key, s string) uint64 {
	foldBig := func(x, y uint64) uint64 {
		p := new(big.Int).Mul(new(big.Int).SetUint64(x), new(big.Int).SetUint64(y))
		low := new(big.Int).And(p, new(big.Int).SetUint64(math.MaxUint64))
		return low.Uint64() ^ new(big.Int).Rsh(p, 64).Uint64()
	}
	word := func(b string) (w uint64) {
		for i := range len(b) {
			w |= uint64(b[i]) << (8 * i)
		}
		return w
	}
	var h, x, y uint64
	switch n := len(s); {
	case n > 16:
		h = k.d
		for at := 0; n-at > 16; at += 16 {
			h = foldBig(word(s[at:at+8])^k.c, word(s[at+8:at+16])^h)
		}
		x, y = word(s[n-16:n-8]), word(s[n-8:])
	case n >= 8:
		x, y = word(s[:8]), word(s[n-8:])
	case n >= 4:
		x, y = word(s[:4]), word(s[n-4:])
	case n > 0:
		x = word(string([]byte{s[n-1], s[n/2], s[0]}))
	}
	return foldBig(k.e^uint64(len(s)), h^foldBig(x^k.a, y^k.b))
}

func FuzzSumIsWhatItsDescriptionSays(f *testing.F) {
	for n := range 70 {
		f.Add(strings.Repeat("caller-0123456789/", 4)[:n], uint64(n))
	}
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		k := Key{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
		if got, want := k.Sum(s), plain(k, s); got != want {
			t.Errorf("%q: got %#x, want %#x", s, got, want)
		}
		if len(s) == 16 && k.Sum16(binary.LittleEndian.Uint64([]byte(s)), binary.LittleEndian.Uint64([]byte(s)[8:])) != k.Sum(s) {
			t.Errorf("%q: Sum16 is not Sum", s)
		}
		if moved := (" " + s)[1:]; k.Sum(moved) != k.Sum(s) { // at another alignment
			t.Errorf("%q: the hash depends on where it lies in memory", s)
		}
	})
}

// Two keys, and two names of one key, have nothing to do with each other.
func TestKeysDiffer(t *testing.T) {
	a, b := New(), New()
	ip, key, again := a.For("ip"), a.For("key"), a.For("ip")
	if again != ip || ip == a {
		t.Fatal("the key of a name is not its own, or not the same each time")
	}
	for _, pair := range [][2]*Key{{&a, &b}, {&ip, &key}, {&a, &ip}} {
		differ := 0
		const n = 4096
		for i := range n {
			s := fmt.Sprint("caller ", i)
			differ += bits.OnesCount64(pair[0].Sum(s) ^ pair[1].Sum(s))
		}
		if mean := float64(differ) / n; mean < 31.5 || mean > 32.5 { // 8 standard deviations
			t.Errorf("got %v bits that differ on average, want 32", mean)
		}
	}
}

// inputs are ids such as people have and attackers choose: they differ little, or in few bits.
func inputs() map[string]func(i int) string {
	return map[string]func(i int) string{
		"decimal":   func(i int) string { return fmt.Sprint(i) },
		"padded":    func(i int) string { return fmt.Sprintf("caller-%015d", i) },
		"ipv4":      func(i int) string { return "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff" + word(i, 4) },
		"ipv6":      func(i int) string { return "\x20\x01\x0d\xb8" + word(i, 8) + "\x00\x00\x00\x01" },
		"high bits": func(i int) string { return word(bits.Reverse32(uint32(i)), 4) + "\x00\x00\x00\x00" },
		"length":    func(i int) string { return strings.Repeat("\x00", i%255) + word(i/255, 2) },
		"middle":    func(i int) string { return strings.Repeat("x", 40) + word(i, 4) + strings.Repeat("x", 40) },
		"same half": func(i int) string { return word(i, 8) + word(i, 8) },
		"swapped":   func(i int) string { return word(i&255, 8) + word(i>>8, 8) },
		"ones":      func(i int) string { return word(^uint64(i), 8) + word(^uint64(i), 8) + word(i, 8) },
	}
}

func word[T int | uint32 | uint64](v T, n int) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(v))[:n])
}

// The parts of a hash that the gate's table uses, scaled to a range or cut out of it, are spread as at random: the
// chi-square of 65 536 hashes over 256 places is 255 ± 23, here within six standard deviations.
func TestHashesAreSpreadEvenly(t *testing.T) {
	const n, places = 1 << 16, 256
	parts := map[string]func(h uint64) uint64{
		"low half":    func(h uint64) uint64 { return h & math.MaxUint32 * places >> 32 },
		"high half":   func(h uint64) uint64 { return h >> 32 * places >> 32 },
		"low bits":    func(h uint64) uint64 { return h % places },
		"mark":        func(h uint64) uint64 { return h >> 32 % places },
		"filter bits": func(h uint64) uint64 { return h >> 46 % places },
	}
	for name, input := range inputs() {
		k := New()
		seen := make(map[uint64]int, n)
		counts := map[string]*[places]int{}
		for part := range parts {
			counts[part] = new([places]int)
		}
		for i := range n {
			h := k.Sum(input(i))
			if j, ok := seen[h]; ok && input(i) != input(j) {
				t.Errorf("%s: %d and %d collide", name, i, j)
			}
			seen[h] = i
			for part, f := range parts {
				counts[part][f(h)]++
			}
		}
		for part, count := range counts {
			chi := 0.0
			for _, c := range count {
				d := float64(c) - n/places
				chi += d * d / (n / places)
			}
			if chi > 255+6*22.6 {
				t.Errorf("%s, %s: got chi-square %.0f, want about 255 (key %+v)", name, part, chi, k)
			}
		}
	}
}

// One bit of the input changes every bit of the hash half of the time.
func TestAvalanche(t *testing.T) {
	const trials = 2000
	for _, n := range []int{1, 3, 4, 7, 8, 15, 16, 17, 22, 32, 33, 48, 49, 100} {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		b := make([]byte, n)
		var flips [64]int
		for range trials {
			k := New()
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			before := k.Sum(string(b))
			b[r.IntN(n)] ^= 1 << r.IntN(8)
			for d := before ^ k.Sum(string(b)); d != 0; d &= d - 1 {
				flips[bits.TrailingZeros64(d)]++
			}
		}
		for bit, f := range flips {
			if p := float64(f) / trials; p < 0.43 || p > 0.57 { // 6 standard deviations
				t.Errorf("%d bytes: bit %d of the hash flips in %.0f %%, want 50", n, bit, 100*p)
			}
		}
	}
}

func TestSumDoesNotAllocate(t *testing.T) {
	k := New()
	s := strings.Repeat("x", 100)
	if n := testing.AllocsPerRun(100, func() { k.Sum(s) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// BenchmarkSum is what it costs where others follow that do not wait for it, and, as "chained", until the result is there;
// beside what it replaces.
func BenchmarkSum(b *testing.B) {
	k, seed := New(), maphash.MakeSeed()
	for _, n := range []int{8, 16, 22, 36} {
		ids := make([]string, 512)
		for i := range ids {
			ids[i] = strings.Repeat(fmt.Sprint(i, "-"), n)[:n]
		}
		run := func(name string, sum func(s string) uint64) {
			b.Run(fmt.Sprint(n, " bytes, ", name), func(b *testing.B) {
				var x uint64
				for i := range b.N {
					x += sum(ids[i&511])
				}
				total = x
			})
			b.Run(fmt.Sprint(n, " bytes, ", name, ", chained"), func(b *testing.B) {
				var x uint64
				for i := range b.N {
					x = sum(ids[(i+int(x&1))&511])
				}
				total = x
			})
		}
		run("loop", func(s string) uint64 { return uint64(len(s)) })
		run("keyhash", k.Sum)
		run("maphash", func(s string) uint64 { return maphash.String(seed, s) })
	}
}

var total uint64

package asn

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/509da70d/floodgate/schemas/asn/asntest"
)

// BenchmarkID looks random addresses up in as many networks as the routers of the Internet know, and says how much memory these take.
func BenchmarkID(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	systems := make(map[string]uint32)
	var v4, v6 []netip.Addr
	for range 400_000 {
		a := [4]byte{byte(1 + random.IntN(222)), byte(random.IntN(256)), byte(random.IntN(256)), 0}
		systems[netip.PrefixFrom(netip.AddrFrom4(a), 16+random.IntN(9)).Masked().String()] = 1 + random.Uint32N(80_000)
		a[3] = 7
		v4 = append(v4, netip.AddrFrom4(a))
	}
	for range 150_000 {
		a := [16]byte{0x20, byte(random.IntN(256)), byte(random.IntN(8)), byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))}
		systems[netip.PrefixFrom(netip.AddrFrom16(a), 32+random.IntN(17)).Masked().String()] = 1 + random.Uint32N(80_000)
		v6 = append(v6, netip.AddrFrom16(a))
	}
	path := filepath.Join(b.TempDir(), "asn.mmdb")
	if err := os.WriteFile(path, asntest.Database(systems), 0o600); err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.Logf("%d networks take %d MiB", f.Networks(), (after.HeapAlloc-before.HeapAlloc)>>20)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if err := f.read(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, addrs := range map[string][]netip.Addr{"IPv4": v4, "IPv6": v6, "one address": v4[:1]} {
		b.Run(name, func(b *testing.B) {
			i, found := 0, 0
			for b.Loop() {
				if f.ID(addrs[i%len(addrs)]) != "" {
					found++
				}
				i++
			}
			if found < i*9/10 {
				b.Fatalf("got %d of %d", found, i)
			}
		})
	}
}

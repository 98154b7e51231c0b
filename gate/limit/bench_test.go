package limit

import (
	"strconv"
	"testing"
	"time"
)

// BenchmarkAllow is one caller: allowed always, refused always, and at a limit between. Run it with -cpu 1,2.
func BenchmarkAllow(b *testing.B) {
	const all = 1 << 20
	for _, c := range []struct {
		name  string
		allow func() bool
	}{
		{"clock", func() bool { return newClock().start.IsZero() }},
		{"ring/all", NewRing(all, time.Millisecond).Allow},
		{"ring/most", NewRing(1000, 100*time.Microsecond).Allow},
		{"ring/few", NewRing(1000, 10*time.Millisecond).Allow},
		{"ring/none", NewRing(1, time.Hour).Allow},
		{"fixed/all", NewFixed(all, time.Millisecond).Allow},
		{"fixed/none", NewFixed(1, time.Hour).Allow},
		{"sliding/all", NewSliding(all, time.Millisecond, 10).Allow},
		{"sliding/none", NewSliding(1, time.Hour, 10).Allow},
		{"token/all", NewTokenBucket(all, time.Millisecond, 0).Allow},
		{"token/none", NewTokenBucket(1, time.Hour, 0).Allow},
		{"leaky/none", NewLeakyBucket(1, time.Hour, 0).Allow},
		{"key/ring", NewKeyed(1, NewRing(1000, time.Millisecond)).Key("a").Allow},
		{"key/token", NewKeyed(1, NewTokenBucket(1e6, time.Second, 0)).Key("a").Allow},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.allow()
				}
			})
		})
	}
}

// BenchmarkKeyed measures many callers in turn: as many as have places, and twice as many as there are places.
func BenchmarkKeyed(b *testing.B) {
	for _, room := range []int{1000, 1_000_000} {
		for _, load := range []int{1, 4} {
			b.Run(strconv.Itoa(room)+"/load "+strconv.Itoa(load), func(b *testing.B) {
				k := NewKeyed(room, NewTokenBucket(100, time.Second, 0))
				keys := make([]string, 1<<16)
				for i := range keys {
					keys[i] = strconv.Itoa(i * 7919 % (room * load))
				}
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						k.Allow(keys[i&(len(keys)-1)])
					}
				})
			})
		}
	}
}

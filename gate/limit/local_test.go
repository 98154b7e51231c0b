package limit_test

import (
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/limit"
	"github.com/509da70d/floodgate/schemas"
)

var _ gate.Limiter = limit.Local{}

// TestLocalDecidesWhileDecisionsAreStale walks through a cold, a fresh and a stale feed, and one that comes back.
func TestLocalDecidesWhileDecisionsAreStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := gate.New(gate.Options{
			Stale: gate.Local, Logger: slog.New(slog.DiscardHandler),
			Local: limit.Local{"ip": limit.NewKeyed(1000, limit.NewRing(3, time.Minute))},
		})
		set.Partitions(1)
		ips, keys := set.Gate("ip"), set.Gate("key")
		a, b := netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8::1")
		ask := func(addr netip.Addr, times int) (admitted int) {
			for range times {
				var c gate.Callers
				c.AddAddr(ips, addr)
				c.Add(keys, "abc") // a kind without a limiter is not limited
				if !set.Check(&c).Closed {
					admitted++
				}
			}
			return admitted
		}
		story := []struct {
			after time.Duration
			beat  bool
			addr  netip.Addr
			want  int // of 10
		}{
			{0, false, a, 10}, // cold
			{0, true, a, 10},  // fresh
			{2 * time.Second, true, a, 10},
			{4 * time.Second, false, a, 3}, // stale
			{time.Second, false, a, 0},
			{time.Second, false, b, 3},
			{time.Minute, false, a, 3},
			{time.Second, true, a, 10}, // fresh again
		}
		for i, s := range story {
			time.Sleep(s.after)
			if s.beat {
				set.Heartbeat(schemas.Heartbeat{}, time.Now())
			}
			if got := ask(s.addr, 10); got != s.want {
				t.Errorf("step %d: admitted %d of 10, want %d", i, got, s.want)
			}
		}
	})
}

func TestLocalDoesNotAllocate(t *testing.T) {
	l := limit.Local{"ip": limit.NewKeyed(10, limit.NewRing(3, time.Minute))}
	now, hash := time.Now(), uint64(1)
	if n := testing.AllocsPerRun(1000, func() {
		hash *= 6364136223846793005
		l.Allow("ip", hash, now)
		l.Allow("key", hash, now)
	}); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

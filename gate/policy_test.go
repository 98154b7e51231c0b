package gate

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// limiterFunc is a Limiter for tests.
type limiterFunc func(kind string, hash uint64, now time.Time) bool

func (f limiterFunc) Allow(kind string, hash uint64, now time.Time) bool { return f(kind, hash, now) }

func beat(s *Set, partition int32, seconds float64) {
	s.Heartbeat(schemas.Heartbeat{Partition: partition, Epoch: 3, Watermark: 42, Lag: 5}, at(seconds))
}

// decided returns a closure decided in a partition.
func decided(partition int32, d schemas.Decision) schemas.Decision {
	d.Partition = partition
	return d
}

func TestPoliciesWhileDecisionsAreStale(t *testing.T) {
	none := limiterFunc(func(string, uint64, time.Time) bool { return false })
	all := limiterFunc(func(string, uint64, time.Time) bool { return true })
	// Partition 0 beats at 0 s and no more; partition 1 until 10 s; partition 2 never does. key:a is decided in 0,
	// key:b in 1, key:c in 2, all closed until 20 s; key:o is open.
	for _, p := range []struct {
		name    string
		policy  Policy
		limiter Limiter
		at      float64
		closed  string // the ids that are refused
	}{
		{"hold, fresh", Hold, nil, 1, "abc"},
		{"hold, stale: closures stay", Hold, nil, 5, "abc"},
		{"hold, stale: until they end", Hold, nil, 20, ""},
		{"open, fresh", Open, nil, 2.9, "abc"},
		{"open, one stale", Open, nil, 3, "bc"},
		{"open, two stale; a cold one is not", Open, nil, 13, "c"},
		{"closed, fresh", Closed, nil, 2.9, "abc"},
		{"closed, stale", Closed, nil, 3, "abco"},
		{"local, fresh", Local, none, 2.9, "abc"},
		{"local, stale, limiter refuses", Local, none, 3, "abco"},
		{"local, stale, limiter allows", Local, all, 3, "abc"},
	} {
		t.Run(p.name, func(t *testing.T) {
			o := exact()
			o.Stale, o.Local = p.policy, p.limiter
			s := New(o)
			s.liveness.start = noon // the story's monotonic clock
			s.Partitions(3)
			beat(s, 0, 0)
			for i := range 11 {
				if float64(i) <= p.at {
					beat(s, 1, float64(i))
				}
			}
			s.ApplyAt(at(0), []schemas.Decision{
				decided(0, closing("r", "key:a", 0, 20)), decided(1, closing("r", "key:b", 0, 20)),
				decided(2, closing("r", "key:c", 0, 20)),
			})
			s.Tick(at(p.at))
			got := ""
			for _, id := range []string{"a", "b", "c", "o"} {
				v := check(t, s, p.at, "key:"+id)
				if v.Closed {
					got += id
				}
				if v.Closed && v.Stale == v.ClosedFor(0) || v.Closed && v.RetryAfter <= 0 {
					t.Errorf("%s: got %+v, want either stale or the caller's own, and when to retry", id, v)
				}
			}
			if got != p.closed {
				t.Errorf("got %q refused, want %q", got, p.closed)
			}
		})
	}
}

func TestColdIsOpen(t *testing.T) {
	for _, policy := range []Policy{Hold, Open, Closed} {
		o := exact()
		o.Stale = policy
		s := New(o)
		s.Partitions(4)
		if v := check(t, s, 1e6, "key:o"); v.Closed {
			t.Errorf("%v: got %+v before any heartbeat, want open", policy, v)
		}
	}
}

// TestAPartitionThatWasNotAnnouncedIsCold: its closures hold under every policy, and to ask about them does no harm.
func TestAPartitionThatWasNotAnnouncedIsCold(t *testing.T) {
	for _, partition := range []int32{-1, 1, 2, math.MaxInt32} {
		o := exact()
		o.Stale = Open
		s := New(o)
		s.liveness.start = noon
		s.Partitions(1)
		beat(s, 0, 0)
		s.ApplyAt(at(0), []schemas.Decision{decided(partition, closing("r", "key:a", 0, 20))})
		if v := check(t, s, 5, "key:a"); !v.Closed {
			t.Errorf("partition %d: got %+v, want closed", partition, v)
		}
		if held := s.Holds(schemas.Caller{Kind: "key", ID: "a"}, at(5)); len(held) != 1 || held[0].Ignored || held[0].Partition.Freshness != Cold {
			t.Errorf("partition %d: got %+v, want one closure of a cold partition", partition, held)
		}
	}
}

func TestClosedSeesStaleDecisionsWithoutATick(t *testing.T) {
	s := New(Options{Stale: Closed, Logger: quiet(), StaleAfter: time.Nanosecond})
	s.Partitions(1)
	g := s.Gate("key")
	if g.Closed("x") {
		t.Fatal("got closed while cold")
	}
	s.Heartbeat(schemas.Heartbeat{}, time.Now().Add(-time.Millisecond))
	c := callersOf(s, "key", "x")
	if !g.Closed("x") || !s.Check(c).Stale || !s.CheckAt(c, time.Time{}).Stale {
		t.Error("got open, want refused: the only partition is stale")
	}
	if !s.Gate("ip").ClosedAddr(netip.MustParseAddr("203.0.113.9")) {
		t.Error("an address: got open, want refused")
	}
	s.SetMode(Shadow)
	if v := s.Check(callersOf(s, "key", "x")); g.Closed("x") || v.Closed || !v.Shadow {
		t.Errorf("mode shadow: got %+v, want admitted and flagged", v)
	}
	s.SetMode(Off)
	if v := s.Check(callersOf(s, "key", "x")); g.Closed("x") || v.Closed || v.Shadow {
		t.Errorf("mode off: got %+v, want nothing", v)
	}
}

// TestHoldRefusesNobodyElse: while decisions are stale, callers without a closure stay open, whoever asks and how.
func TestHoldRefusesNobodyElse(t *testing.T) {
	s := New(Options{Logger: quiet(), StaleAfter: time.Nanosecond})
	s.Partitions(1)
	s.Heartbeat(schemas.Heartbeat{}, time.Now().Add(-time.Millisecond))
	closeNow(s, "key", "x")
	closeNow(s, "ip", "203.0.113.9")
	keys, ips := s.Gate("key"), s.Gate("ip")
	if !keys.Closed("x") || !ips.Closed("203.0.113.9") {
		t.Error("got a closed caller open")
	}
	for i := range 1000 { // some of them pass the filter
		addr := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
		if keys.Closed(addr.String()) || ips.ClosedAddr(addr) || s.Check(callersOf2(ips, addr.String())).Closed {
			t.Fatalf("got %s closed, want open", addr)
		}
	}
}

func TestFreshnessInStatus(t *testing.T) {
	s := New(exact())
	s.liveness.start = noon
	s.Partitions(3)
	beat(s, 0, 0)
	beat(s, 1, 9)
	beat(s, 1, 8) // came late
	beat(s, 3, 9) // Partitions did not announce it
	beat(s, -1, 9)
	st := s.StatusAt(at(10))
	if st.Cold != 1 || st.Fresh != 1 || st.Stale != 1 || st.Age != 10*time.Second || st.Invalid != 2 {
		t.Errorf("got %+v, want one partition each cold, fresh, stale; 10 s old; 2 invalid", st)
	}
	want := PartitionStatus{Partition: 1, Freshness: Fresh, Age: time.Second, Epoch: 3, Watermark: 42, Lag: 5}
	if st.Partitions[1] != want {
		t.Errorf("got %+v, want %+v", st.Partitions[1], want)
	}
	s.Partitions(5)
	if st := s.StatusAt(at(10)); st.Cold != 3 || st.Fresh != 1 || st.Stale != 1 {
		t.Errorf("after growing: got %+v, want the heartbeats kept", st)
	}
	s.Partitions(1)
	if st := s.StatusAt(at(10)); st.Cold != 0 || st.Fresh != 0 || st.Stale != 1 {
		t.Errorf("after shrinking: got %+v, want the first only", st)
	}
	for _, n := range []int{0, -1} {
		if s.Partitions(n); len(s.StatusAt(at(10)).Partitions) != 0 {
			t.Errorf("%d partitions: got %+v, want none", n, s.StatusAt(at(10)).Partitions)
		}
	}
}

func TestLocalNeedsALimiter(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got a Set, want a panic")
		}
	}()
	New(Options{Stale: Local})
}

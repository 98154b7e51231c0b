package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestARequestThatComesLate, with the time of the period before, begins no period anew: it takes a permit of the newest one.
func TestARequestThatComesLate(t *testing.T) {
	const key = "key:x"
	s := announced(t, exact(), key, 30)
	s.ApplyAt(at(1.2), []schemas.Decision{sharing("r", key, 2, 9, 100, 60, 1)})
	for _, step := range []struct {
		at   float64
		asks int
		want int
	}{{2.5, 60, 50}, {3.1, 30, 30}, {2.9, 10, 10}, {3.2, 60, 10}, {2.9, 9, 0}} {
		if n, _ := ask(t, s, step.asks, step.at, key); n != step.want {
			t.Errorf("at %v: got %d admitted, want %d", step.at, n, step.want)
		}
	}
}

// TestPermitsAreGivenBack: a request that a later share refuses costs the earlier ones nothing.
func TestPermitsAreGivenBack(t *testing.T) {
	const key, tenant = "key:x", "tenant:t"
	s := New(exact())
	both := func(from float64, demand int64, measured float64) []schemas.Decision {
		return []schemas.Decision{
			sharing("a", key, from, 9, 100, demand, measured), sharing("b", key, from, 9, 60, demand, measured),
			sharing("c", tenant, from, 9, 30, demand, measured), shadowed(sharing("d", key, from, 9, 5, demand, measured)),
		}
	}
	s.ApplyAt(at(0), both(2, 1, 0))
	ask(t, s, 50, 0.5, key, tenant)
	s.ApplyAt(at(1.1), both(2, 50, 1))
	n, v := ask(t, s, 70, 2.1, key, tenant)
	if n != 30 || !v.ClosedFor(1) || v.ClosedFor(0) || v.Rule != "c" || v.Caller.String() != tenant || !v.Shadow {
		t.Errorf("got %d admitted, %+v, want 30, and then the tenant's share", n, v)
	}
	if n, v := ask(t, s, 70, 2.2, key); n != 30 || v.Rule != "b" {
		t.Errorf("got %d admitted, %+v, want the 30 permits that are left of b's 60", n, v)
	}
	if got := refusalsOf(s); got["c"] != [2]uint64{40, 0} || got["b"] != [2]uint64{40, 0} || got["d"][0] != 0 || got["d"][1] == 0 {
		t.Errorf("got refusals %v, want 40 of c, 40 of b, and d in shadow", got)
	}
	s.ApplyAt(at(2.3), []schemas.Decision{closing("b", key, 0, 0)})
	if n, v := ask(t, s, 70, 2.4, key); n != 40 || v.Rule != "a" {
		t.Errorf("got %d admitted, %+v, want the 40 permits that are left of a's 100", n, v)
	}
	// The tenant refused 40 of the 210 requests: these are no demand of the key.
	s.ApplyAt(at(3.1), []schemas.Decision{sharing("a", key, 4, 9, 100, 340, 3)})
	if n, _ := ask(t, s, 200, 4.1, key); n != 50 {
		t.Errorf("got %d admitted, want 50: 170 of 340", n)
	}
}

// TestEachShareGetsItsPermitBack: of four callers the last one has no permit left, or the third, wherever in the request they stand.
func TestEachShareGetsItsPermitBack(t *testing.T) {
	callers := []string{"key:a", "key:b", "tenant:c", "tenant:d", "user:without-a-share"}
	for poor := range 4 {
		s := New(exact())
		give := func(from, until, measured float64) {
			for i, c := range callers[:4] {
				permits := int64(10)
				if i == poor {
					permits = 3
				}
				s.ApplyAt(at(measured), []schemas.Decision{sharing(fmt.Sprint("r", i), c, from, until, permits, 60, measured)})
			}
		}
		give(100, 101, 0)
		ask(t, s, 60, 0.5, callers...)
		give(2, 9, 1)
		if n, v := ask(t, s, 20, 2.5, callers...); n != 3 || !v.ClosedFor(poor) || v.Rule != fmt.Sprint("r", poor) {
			t.Errorf("caller %d: got %d admitted, %+v, want its 3 permits", poor, n, v)
		}
		for i, c := range callers[:4] {
			want := 7
			if i == poor {
				want = 0
			}
			if n, _ := ask(t, s, 20, 2.6, "user:without-a-share", c); n != want {
				t.Errorf("caller %d refuses: got %d admitted of caller %d, want the %d permits that are left", poor, n, i, want)
			}
		}
	}
}

// TestWhatIsAdmittedInShadowIsDemandOfAll: a share that would refuse hides nothing of the callers after it.
func TestWhatIsAdmittedInShadowIsDemandOfAll(t *testing.T) {
	const key, user, tenant = "key:x", "user:u", "tenant:t"
	s := New(exact())
	s.SetMode(Shadow)
	s.ApplyAt(at(0), []schemas.Decision{
		sharing("none", tenant, 0, 1, 0, 1, 0), sharing("r", user, 100, 101, 1, 1, 0), sharing("r", key, 100, 101, 1, 1, 0),
	})
	if n, v := ask(t, s, 30, 0.5, tenant, user, key); n != 30 || !v.Shadow || v.Rule != "none" {
		t.Errorf("got %d admitted, %+v, want all of them, and what would have refused", n, v)
	}
	s.SetMode(Enforce)
	s.ApplyAt(at(1.2), []schemas.Decision{sharing("r", user, 2, 4, 100, 60, 1), sharing("r", key, 2, 4, 100, 60, 1)})
	for _, caller := range []string{user, key} {
		if n, _ := ask(t, s, 60, 2.5, caller); n != 50 {
			t.Errorf("%s: got %d admitted, want 50 by the demand of 30 of 60", caller, n)
		}
	}
}

// TestClosedOfACallerWithAShareWhileStale: the policies say the same to who asks a Gate.
func TestClosedOfACallerWithAShareWhileStale(t *testing.T) {
	for policy, want := range map[Policy]bool{Hold: false, Open: false, Closed: true} {
		o := exact()
		o.Stale, o.StaleAfter = policy, time.Nanosecond
		s, now := New(o), time.Now()
		s.Partitions(1)
		s.Heartbeat(schemas.Heartbeat{}, now.Add(-time.Millisecond))
		d := decision("r", now, now)
		d.Share = &schemas.Share{
			From: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(), Period: int64(time.Hour), Permits: 1, Demand: 1,
			DemandFrom: now.Add(-time.Second).UnixNano(), DemandUntil: now.UnixNano(),
		}
		s.Apply([]schemas.Decision{d})
		if got := s.Gate("key").Closed("abc"); got != want {
			t.Errorf("%v: got closed %v with a permit left, want %v", policy, got, want)
		}
	}
}

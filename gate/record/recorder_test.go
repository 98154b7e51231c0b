package record

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// server is a Set with a Recorder, as a server has them.
type server struct {
	set  *gate.Set
	ips  *gate.Gate
	keys *gate.Gate
	rec  *Recorder
}

func newServer(o Options) *server {
	set := gate.New(gate.Options{})
	return &server{set: set, ips: set.Gate("ip"), keys: set.Gate("key"), rec: New(o)}
}

func (s *server) request(key, resource string, at time.Time) {
	var c gate.Callers
	c.Add(s.keys, key)
	s.rec.Record(&c, gate.Verdict{}, Request{Resource: resource, At: at})
}

// drain takes everything, acknowledges it, and returns it by caller and whether blocked, summed up.
func (s *server) drain(t *testing.T) (es []schemas.Entry) {
	t.Helper()
	n := s.rec.Drain(func(_ uint64, e *schemas.Entry) {
		c := *e
		c.Kind, c.ID, c.Resource = strings.Clone(e.Kind), strings.Clone(e.ID), strings.Clone(e.Resource)
		es = append(es, c)
	})
	var sum uint64
	for _, e := range es {
		sum += uint64(e.Count)
	}
	if sum != n {
		t.Errorf("drained %d requests, want %d as Drain says", sum, n)
	}
	s.rec.Acked(n)
	return es
}

// conserve fails the test if a request is not accounted for.
func conserve(t *testing.T, s Stats) {
	t.Helper()
	if s.Accepted != s.Acked+s.DroppedTotal()+s.Unknown+s.Queued {
		t.Fatalf("accepted %d ≠ acked %d + dropped %v + unknown %d + queued %d",
			s.Accepted, s.Acked, s.Dropped, s.Unknown, s.Queued)
	}
}

func TestARequestIsRecordedForEachOfItsCallers(t *testing.T) {
	s := newServer(Options{})
	var c gate.Callers
	c.AddAddr(s.ips, netip.MustParseAddr("::ffff:203.0.113.9"))
	c.Add(s.keys, "abc")
	s.rec.Record(&c, gate.Verdict{}, Request{Resource: "/v1/search", At: noon})
	got := s.drain(t)
	want := []schemas.Entry{
		{Time: noon.UnixNano(), Kind: "ip", ID: "203.0.113.9", Resource: "/v1/search", Count: 1},
		{Time: noon.UnixNano(), Kind: "key", ID: "abc", Resource: "/v1/search", Count: 1},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	conserve(t, s.rec.Stats())
	if st := s.rec.Stats(); st.Accepted != 2 || st.Acked != 2 {
		t.Errorf("got %+v, want 2 accepted and acked", st)
	}
}

func TestABlockedRequestIsRecordedOnlyForCallersWhoseOwnGateWasClosed(t *testing.T) {
	s := newServer(Options{})
	now := time.Now()
	s.set.Apply([]schemas.Decision{{
		Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: "child"}, Mode: schemas.ModeEnforce,
		CloseAt: now.Add(-time.Second).UnixNano(), Until: now.Add(time.Hour).UnixNano(),
	}})
	var c gate.Callers
	c.AddAddr(s.ips, netip.MustParseAddr("203.0.113.9"))
	c.Add(s.keys, "child")
	v := s.set.Check(&c)
	if !v.Closed {
		t.Fatal("the child's gate is open")
	}
	s.rec.Record(&c, v, Request{At: now})
	drained := s.drain(t)
	if len(drained) != 1 || drained[0].ID != "child" || !drained[0].Blocked {
		t.Errorf("got %+v, want the child's blocked request, and nothing charged to its parent", drained)
	}
}

func TestAdmittedBlockedAndBlockedEarlyNeverMerge(t *testing.T) {
	s := newServer(Options{})
	salt := s.rec.salt(&schemas.Entry{})
	admitted, blocked, early := combine(1, salt, false, false), combine(1, salt, true, false), combine(1, salt, true, true)
	if admitted == blocked || blocked == early || early == admitted {
		t.Error("of admitted, blocked and blocked early, two share a hash")
	}
}

// TestWhatIsBlockedEarlyIsRecordedAsSuch: within one tick a caller is admitted, closed early, and closed by a decision that
// confirms it. The analyzer counts the three apart, so they are three entries.
func TestWhatIsBlockedEarlyIsRecordedAsSuch(t *testing.T) {
	s := newServer(Options{})
	at := noon.Truncate(time.Second)
	ask := func(early bool, length time.Duration) {
		if length > 0 {
			s.set.ApplyAt(at, []schemas.Decision{{
				Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: "abc"}, Mode: schemas.ModeEnforce, Early: early,
				CloseAt: at.UnixNano(), Until: at.Add(length).UnixNano(),
			}})
		}
		for range 5 {
			var c gate.Callers
			c.AddAddr(s.ips, netip.MustParseAddr("203.0.113.9"))
			c.Add(s.keys, "abc")
			s.rec.Record(&c, s.set.CheckAt(&c, at), Request{At: at})
		}
	}
	ask(false, 0)
	ask(true, time.Second)
	ask(false, time.Minute)
	counts := make(map[[2]bool]uint32)
	for _, e := range s.drain(t) {
		if e.Kind == "key" {
			counts[[2]bool{e.Blocked, e.Early}] += e.Count
		} else if e.Blocked || e.Early {
			t.Errorf("got %+v: the address was not closed", e)
		}
	}
	if want := map[[2]bool]uint32{{false, false}: 5, {true, true}: 5, {true, false}: 5}; !maps.Equal(counts, want) {
		t.Errorf("got %v by blocked and early, want %v", counts, want)
	}
}

func TestAFloodByOneCallerIsOneEntry(t *testing.T) {
	s := newServer(Options{})
	for i := range 10_000 {
		s.request("noisy", "/", noon.Add(time.Duration(i)*100*time.Nanosecond)) // 1 ms in all
	}
	got := s.drain(t)
	if len(got) > len(s.rec.stripes) { // one unless the goroutine moves to another processor
		t.Errorf("got %d entries, want at most one a stripe", len(got))
	}
	if st := s.rec.Stats(); st.Acked != 10_000 {
		t.Errorf("got %d requests, want 10000", st.Acked)
	}
}

func TestResponses(t *testing.T) {
	s := newServer(Options{Responses: true})
	var c gate.Callers
	c.Add(s.keys, "abc")
	s.rec.Respond(&c, Response{Resource: "/a", Status: 200, Cost: 3, At: noon})
	s.rec.Respond(&c, Response{Resource: "/a", Status: 200, Cost: 4, At: noon.Add(time.Millisecond)})
	s.rec.Respond(&c, Response{Resource: "/a", Status: 404, Cost: -9, At: noon})
	s.rec.Respond(&c, Response{Resource: "/a", Status: 1 << 20, At: noon})
	var requests uint32
	cost := map[uint16]int64{}
	for _, e := range s.drain(t) {
		if !e.Response || e.Blocked {
			t.Errorf("got %+v, want a response", e)
		}
		requests += e.Count
		cost[e.Status] += e.Cost
	}
	if requests != 4 || len(cost) != 3 || cost[200] != 7 || cost[404] != 0 || cost[0] != 0 {
		t.Errorf("got %d responses of cost %v, want 4 of 7 for status 200", requests, cost)
	}
}

func TestRespondDoesNothingUnlessAskedFor(t *testing.T) {
	s := newServer(Options{})
	var c gate.Callers
	c.Add(s.keys, "abc")
	s.rec.Respond(&c, Response{Status: 200})
	if st := s.rec.Stats(); st.Accepted != 0 {
		t.Errorf("got %d accepted, want 0", st.Accepted)
	}
}

func TestAbsurdInputIsCutDown(t *testing.T) {
	for _, tc := range []struct {
		at   time.Time
		want int64
	}{
		{time.Unix(0, 0).Add(-time.Hour), 0},
		{time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), 0},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{time.Unix(0, 1), 1},
	} {
		s := newServer(Options{})
		s.request("k", strings.Repeat("r", schemas.MaxResource+1), tc.at)
		got := s.drain(t)
		if len(got) != 1 || got[0].Time != tc.want || len(got[0].Resource) != schemas.MaxResource {
			t.Errorf("%v: got %+v, want time %d and a resource of %d bytes", tc.at, got, tc.want, schemas.MaxResource)
		}
	}
}

func TestZeroTimeIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(Options{})
		s.request("k", "/", time.Time{})
		if got := s.drain(t); len(got) != 1 || got[0].Time != time.Now().UnixNano() {
			t.Errorf("got %+v, want the time %d", got, time.Now().UnixNano())
		}
	})
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	s := newServer(Options{Responses: true})
	addr := netip.MustParseAddr("2001:db8::1")
	id := "caller "
	record := func() {
		var c gate.Callers
		c.AddAddr(s.ips, addr)
		c.Add(s.keys, id)
		s.rec.Record(&c, s.set.Check(&c), Request{Resource: "/v1/{id}"})
		s.rec.Respond(&c, Response{Resource: "/v1/{id}", Status: 200, Cost: 1})
	}
	record()
	if n := testing.AllocsPerRun(1000, record); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, callers := range []int{1, 1000} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := newServer(Options{})
			ids := make([]string, callers)
			for i := range ids {
				ids[i] = fmt.Sprint("caller-", i)
			}
			for i := 0; b.Loop(); i++ {
				var c gate.Callers
				c.Add(s.keys, ids[i%callers])
				s.rec.Record(&c, gate.Verdict{}, Request{Resource: "/v1/{id}", At: noon})
			}
		})
	}
}

func BenchmarkRecordParallelNow(b *testing.B) {
	s := newServer(Options{})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var c gate.Callers
			c.Add(s.keys, "caller")
			s.rec.Record(&c, gate.Verdict{}, Request{Resource: "/v1/{id}"})
		}
	})
}

func TestWakeRightAfterAndRightBeforeARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(Options{})
		wake := s.rec.Wake()
		synctest.Wait()
		select {
		case <-wake:
			t.Fatal("woken by nothing")
		default:
		}
		s.request("k", "/", noon)
		<-wake
		<-s.rec.Wake() // it is still there
		s.drain(t)
		s.request("k", "/", noon)
		<-s.rec.Wake() // it came before the call
	})
}

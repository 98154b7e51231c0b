package gatetest_test

import (
	"math"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

func TestSetIsClosedForExactlyAsLongAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := gatetest.Set(t, gatetest.Close("ip:::ffff:203.0.113.9", time.Minute), gatetest.Shadow("key:abc", time.Hour))
		addr := netip.MustParseAddr("203.0.113.9")
		ips, keys := s.Gate("ip"), s.Gate("key")
		if !ips.ClosedAddr(addr) || keys.Closed("abc") || ips.Closed("203.0.113.10") {
			t.Fatal("got another caller closed than the address")
		}
		var c gate.Callers
		c.Add(keys, "abc")
		if v := s.Check(&c); v.Closed || !v.Shadow || v.Rule != gatetest.Rule || v.Limit != gatetest.Limit || v.Window != gatetest.Window {
			t.Errorf("got %+v, want a shadow verdict with the rule's limit", v)
		}
		<-time.After(time.Minute - 1)
		if !ips.ClosedAddr(addr) {
			t.Error("got open before the minute was over")
		}
		<-time.After(1)
		if ips.ClosedAddr(addr) {
			t.Error("got closed after a minute")
		}
		gatetest.Apply(t, s, gatetest.Close("ip:203.0.113.9", time.Hour))
		if !ips.ClosedAddr(addr) {
			t.Error("got open, want closed again")
		}
		gatetest.Apply(t, s, gatetest.Open("ip:203.0.113.9"))
		if ips.ClosedAddr(addr) {
			t.Error("got closed, want opened")
		}
	})
}

// failing is a testing.TB that keeps what it is failed with.
type failing struct {
	testing.TB
	got string
}

type failed struct{}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, _ ...any) {
	f.got = format
	panic(failed{})
}

func TestSetFailsTheTestOnABadCaller(t *testing.T) {
	for _, caller := range []string{"", "abc", "ip:not an address", "Key:x", "key:", "key:" + strings.Repeat("x", 257)} {
		f := &failing{TB: t}
		func() {
			defer func() { _ = recover() }()
			gatetest.Set(f, gatetest.Close(caller, time.Minute))
		}()
		if f.got == "" {
			t.Errorf("%q: got a Set, want the test failed", caller)
		}
	}
}

func TestRecorderKeepsTheEntriesThatALinkWouldGet(t *testing.T) {
	s := gatetest.Set(t, gatetest.Close("key:abc", time.Minute))
	var rec gatetest.Recorder
	var c gate.Callers
	c.AddAddr(s.Gate("ip"), netip.MustParseAddr("203.0.113.9"))
	rec.Record(&c, s.Check(&c), record.Request{Resource: "/a"})
	rec.Respond(&c, record.Response{Resource: "/a", Status: 204, Cost: 3})
	c.Add(s.Gate("key"), "abc")
	rec.Record(&c, s.Check(&c), record.Request{Resource: "/b"})
	c.Reset()
	c.AddAddr(s.Gate("ip"), netip.MustParseAddr("198.51.100.200")) // over the text of the first
	ip, key := schemas.Caller{Kind: "ip", ID: "203.0.113.9"}, schemas.Caller{Kind: "key", ID: "abc"}
	want := []gatetest.Event{
		{Caller: ip, Resource: "/a"},
		{Caller: ip, Resource: "/a", Response: true, Status: 204, Cost: 3},
		{Caller: key, Resource: "/b", Blocked: true},
	}
	if got := rec.Events(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	rec.Reset()
	if got := rec.Events(); len(got) != 0 {
		t.Errorf("got %+v after Reset", got)
	}
}

// The Recorder of this package records what record.Recorder records: the same requests give the same sums.
func TestRecorderAgreesWithTheRealOne(t *testing.T) {
	for _, holds := range []bool{false, true} {
		agree(t, holds)
	}
}

func agree(t *testing.T, holds bool) {
	t.Helper()
	s := gatetest.Set(t, gatetest.Close("key:closed", time.Minute), gatetest.Shadow("key:shadow", time.Minute),
		gatetest.Close("ip:192.0.2.66", time.Minute), gatetest.Early("key:early", time.Minute))
	ips, keys := s.Gate("ip"), s.Gate("key")
	fake, arrived := gatetest.Recorder{Hold: holds}, time.Now()
	actual := record.New(record.Options{Responses: true, Holds: holds})
	for _, ip := range []string{"192.0.2.1", "192.0.2.66", ""} {
		for _, key := range []string{"open", "closed", "early", "shadow", ""} {
			var c gate.Callers
			c.Add(ips, ip)
			c.Add(keys, key)
			v := s.Check(&c)
			for _, r := range []interface {
				Record(*gate.Callers, gate.Verdict, record.Request)
				Respond(*gate.Callers, record.Response)
			}{&fake, actual} {
				r.Record(&c, v, record.Request{Resource: "/" + key, At: arrived, Declared: 9})
				r.Record(&c, v, record.Request{Resource: "/" + key, At: arrived, Declared: -1})
				if !v.Closed {
					r.Respond(&c, record.Response{Resource: "/" + key, Status: 404, Cost: 7, Arrived: arrived, Declared: math.MaxInt64})
				}
			}
		}
	}
	type sum struct{ count, cost, declared, arrived int64 }
	recorded, kept := map[gatetest.Event]sum{}, map[gatetest.Event]sum{}
	actual.Drain(func(_ uint64, e *schemas.Entry) {
		event := gatetest.Event{
			Caller:   schemas.Caller{Kind: e.Kind, ID: strings.Clone(e.ID)},
			Resource: strings.Clone(e.Resource), Blocked: e.Blocked, Early: e.Early, Response: e.Response, Status: int(e.Status),
		}
		n := recorded[event]
		recorded[event] = sum{n.count + int64(e.Count), n.cost + e.Cost, n.declared + e.Declared, n.arrived + e.Arrived}
	})
	for _, e := range fake.Events() {
		of := e
		of.Cost, of.Declared, of.Arrived = 0, 0, time.Time{}
		n := kept[of]
		n = sum{n.count + 1, n.cost + e.Cost, n.declared + e.Declared, n.arrived}
		if !e.Arrived.IsZero() {
			n.arrived += schemas.Tick(e.Arrived.UnixNano())
		}
		kept[of] = n
	}
	if !reflect.DeepEqual(kept, recorded) || len(kept) == 0 {
		t.Errorf("got %v, want what record.Recorder has: %v", kept, recorded)
	}
}

func TestRecorderIsForAnyGoroutine(t *testing.T) {
	s := gatetest.Set(t)
	keys := s.Gate("key")
	var rec gatetest.Recorder
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				var c gate.Callers
				c.Add(keys, "abc")
				rec.Record(&c, s.Check(&c), record.Request{})
				rec.Respond(&c, record.Response{})
				_ = rec.Events()
			}
		})
	}
	wg.Wait()
	if n := len(rec.Events()); n != 800 {
		t.Errorf("got %d events, want 800", n)
	}
	if !rec.Responses() {
		t.Error("got a Recorder that wants no responses")
	}
}

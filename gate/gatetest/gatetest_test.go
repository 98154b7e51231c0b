package gatetest_test

import (
	"net/netip"
	"reflect"
	"strings"
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

func TestRecorderKeepsWhatALinkWouldBeTold(t *testing.T) {
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

package ingest

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

func TestFormats(t *testing.T) {
	for name, c := range map[string]struct {
		format string
		m      Mapping
	}{
		"unknown format":       {"elf", Mapping{}},
		"no callers":           {"json", Mapping{}},
		"unknown layout":       {"json", Mapping{Callers: callers(t, "ip=a"), Layout: timeLayouts}},
		"kind twice":           {"json", Mapping{Callers: callers(t, "ip=a", "ip=b")}},
		"bad kind":             {"json", Mapping{Callers: []CallerTemplate{{Kind: "I P", Template: "{a}"}}}},
		"canary":               {"json", Mapping{Callers: []CallerTemplate{{Kind: schemas.KindCanary, Template: "{a}"}}}},
		"no field":             {"json", Mapping{Callers: []CallerTemplate{{Kind: "key"}}}},
		"too many callers":     {"json", Mapping{Callers: make([]CallerTemplate, MaxCallers+1)}},
		"too many names":       {"json", Mapping{Callers: callers(t, "ip="+strings.Repeat("a.", 80)+"a")}},
		"composite ip":         {"combined", Mapping{Callers: callers(t, "ip=ip+user")}},
		"unknown field":        {"combined", Mapping{Callers: callers(t, "key=api_key")}},
		"agent in common":      {"common", Mapping{Callers: callers(t, "agent=agent")}},
		"time field in common": {"common", Mapping{Time: "time"}},
		"layout in combined":   {"combined", Mapping{Layout: TimeUnix}},
		"cost field in common": {"common", Mapping{Cost: "bytes"}},
		"cost scale":           {"common", Mapping{Cost: "ip", CostScale: 7}},
		"address bits":         {"common", Mapping{IDs: schemas.IDs{IPv6Prefix: 129}}},
		"no such client":       {"json", Mapping{Callers: callers(t, "key=a"), Drop: []Filter{{Client: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}}},
		"drop everything":      {"common", Mapping{Drop: []Filter{{}}}},
		"routes twice":         {"common", Mapping{Routes: []string{"/a/{b}", "/a/{c}"}}},
	} {
		if _, err := NewFormat(c.format, c.m); !errors.Is(err, ErrMapping) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	for _, s := range []string{"", "ip", "=a", "ip=", "IP=a", "k=a+", "k=+", "k=a+b+c+d+e", "k=a,l=b"} {
		if got, err := ParseCallerField(s); err == nil {
			t.Errorf("%q: got %v", s, got)
		}
	}
	f, err := NewFormat("combined", Mapping{Callers: callers(t, "agent=agent")})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.Name(), f.Kinds(), Formats()); got != "combined[ip agent] "+fmt.Sprint(Formats()) || Formats()[0] != FormatAuto {
		t.Errorf("got %s", got)
	}
	f.Kinds()[0] = "changed"
	if f.Kinds()[0] != "ip" || f.Scanner() == f.Scanner() {
		t.Error("a format shares its state")
	}
}

func TestCallerFields(t *testing.T) {
	for text, want := range map[string]CallerTemplate{
		"ip=addr":              {Kind: "ip", Template: "{addr}"},
		"key=a.b":              {Kind: "key", Template: "{a.b}"},
		"ip_route=ip+resource": {Kind: "ip_route", Template: "{ip}|{resource}"},
		"k=a=b":                {Kind: "k", Template: "{a=b}"},
		"k=a,b":                {Kind: "k", Template: "{a,b}"},
		"k=a+b+c+d":            {Kind: "k", Template: "{a}|{b}|{c}|{d}"},
	} {
		got, err := ParseCallerField(text)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}

// TestMappingsSayWhatIsWrong: a person has to mend the flag from the message alone.
func TestMappingsSayWhatIsWrong(t *testing.T) {
	for want, c := range map[string]struct {
		format string
		m      Mapping
	}{
		`got field "key", want one of ip, user, method, target, referer, agent`:    {"combined", Mapping{Callers: callers(t, "key=key")}},
		`got field "agent", want one of ip, user, method, target`:                  {"common", Mapping{Callers: callers(t, "agent=agent")}},
		`callers ip: these are addresses: want one field`:                          {"combined", Mapping{Callers: callers(t, "ip=ip+user")}},
		`no callers: want one, such as ip=client_ip`:                               {"json", Mapping{Time: "at"}},
		`got format "apache", want one of ` + strings.Join(Formats(), ", "):        {"apache", Mapping{}},
		`two templates for callers of kind "key"`:                                  {"json", Mapping{Callers: callers(t, "key=a", "key=b")}},
		`got "_tally", want another one: callers of this kind are floodgate's own`: {"json", Mapping{Callers: []CallerTemplate{{Kind: schemas.KindTally, Template: "{a}"}}}},
	} {
		_, err := NewFormat(c.format, c.m)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestAnAddressInACompositeIsCanonical is how a composite of an address and a route finds the gate that the middleware
// asks: by the same id, however the log writes the address.
func TestAnAddressInACompositeIsCanonical(t *testing.T) {
	m := Mapping{Callers: callers(t, "ip_route=ip+resource", "route_ip=resource+ip")}
	s, l := scanner(t, "combined", m), new(Line)
	for _, addr := range []string{"2001:db8::1", "2001:DB8:0::1", "2001:db8::1%eth0"} {
		line := addr + " - - " + clfTime + ` "GET /a?b HTTP/1.1" 200 1`
		if got := s.Scan([]byte(line), l); got != OK || l.IDs[1] != "2001:db8::|GET /a" || l.IDs[2] != "GET /a|2001:db8::" {
			t.Errorf("%s: got %v, %q", line, got, l.IDs)
		}
	}
}

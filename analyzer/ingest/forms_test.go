package ingest

import (
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
)

// TestOneFormOfAnAddress: with a port, in brackets, mapped, with a zone, in capitals; and what is none.
func TestOneFormOfAnAddress(t *testing.T) {
	for text, want := range map[string]string{
		"1.2.3.4":                 "1.2.3.4",
		"1.2.3.4:0":               "1.2.3.4",
		"1.2.3.4:65535":           "1.2.3.4",
		"1.2.3.4:":                "1.2.3.4",
		"1.2.3.4:http":            "",
		"1.2.3.4:-1":              "",
		"1.2.3.4.":                "",
		"[1.2.3.4]":               "",
		"[1.2.3.4]:80":            "",
		"::1":                     "::1",
		"[::1]":                   "::1",
		"[::1]:80":                "::1",
		"[::1":                    "",
		"::1]":                    "",
		"[]":                      "",
		"[]:80":                   "",
		"2001:DB8:0::0001":        "2001:db8::1",
		"[2001:DB8::1%eth0]:80":   "2001:db8::1",
		"fe80::1%eth0":            "fe80::1",
		"::ffff:1.2.3.4":          "1.2.3.4",
		"[::ffff:1.2.3.4]:80":     "1.2.3.4",
		"::FFFF:0102:0304":        "1.2.3.4",
		"0:0:0:0:0:ffff:1.2.3.4":  "1.2.3.4",
		"unix:":                   "",
		"unix:/run/nginx.sock":    "",
		"localhost":               "",
		"localhost:80":            "",
		"unknown":                 "",
		"_hidden":                 "",
		"-":                       "",
		"":                        "",
		":80":                     "",
		"1.2.3.4, 5.6.7.8":        "",
		" 1.2.3.4":                "",
		"1.2.3.4\x00":             "",
		"01.2.3.4":                "",
		"0x1.2.3.4":               "",
		"16909060":                "",
		"1.2.3.4/32":              "",
		strings.Repeat("1", 1000): "",
	} {
		if got := bare(text, new(Line)); got != want {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
}

// TestTargetsOfRequests: fields that may hold a path, a URL or a whole request line.
func TestTargetsOfRequests(t *testing.T) {
	for text, want := range map[string]string{
		"/a":                                "/a",
		"/a?b":                              "/a",
		"GET /a HTTP/1.1":                   "/a",
		"GET /a?b HTTP/2.0":                 "/a",
		"GET /a b HTTP/1.1":                 "/a b",
		"PROPFIND /dav HTTP/1.1":            "/dav",
		"M-SEARCH * HTTP/1.1":               "*",
		"CONNECT example.com:443 HTTP/1.1":  "example.com:443",
		"GET http://example.com/a HTTP/1.1": "/a",
		"http://example.com/a?b":            "/a",
		"https://example.com":               "/",
		"https://example.com:443/":          "/",
		"get /a HTTP/1.1":                   "get /a HTTP/1.1", // no method: it is what it is
		"/GET /a HTTP/1.1":                  "/GET /a HTTP/1.1",
		"GET":                               "GET",
		"GET ":                              "GET ",
		"GET /a":                            "GET /a",
		"*":                                 "*",
		"":                                  "",
		"-":                                 "-",
		"?a":                                "",
		"/?":                                "/",
		"//a":                               "//a",
		"/a/../b":                           "/a/../b",
		"/%2e%2e":                           "/%2e%2e",
	} {
		if _, target := new(Line).requestOf(text); pathOf(target) != want {
			got := pathOf(target)
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestStatusSets(t *testing.T) {
	var s statusSet
	for _, r := range []pattern.StatusRange{{From: 100, To: 199}, {From: 429, To: 429}, {From: 590, To: 5000}} {
		s.add(r)
	}
	for n := range uint16(2000) {
		want := n >= 100 && n < 200 || n == 429 || n >= 590 && n <= 999
		if s.has(n) != want {
			t.Errorf("%d: got %v", n, s.has(n))
		}
	}
	if (&statusSet{}).has(0) || (&statusSet{}).has(65535) {
		t.Error("an empty set holds something")
	}
}

// TestLastingViewsLast: what is encoded later must still be what was scanned, whatever is scanned meanwhile.
func TestLastingViewsLast(t *testing.T) {
	s, l := scanner(t, "json", Mapping{Callers: callers(t, "key=k.id")}), &Line{Lasting: true}
	var views, copies []string
	for i := range 5000 {
		id := strings.Repeat(string(rune('a'+i%26)), 1+i%200)
		if got := Scan(s, []byte(`{"time":1,"k":{"id":"`+id+`\n"}}`), l); got != OK {
			t.Fatal(got)
		}
		views, copies = append(views, l.IDs[0]), append(copies, id+"\n")
	}
	for i := range views {
		if views[i] != copies[i] {
			t.Fatalf("view %d: got %q, want %q", i, views[i], copies[i])
		}
	}
}

// TestLastingLinesHardlyAllocate: memory is taken a few kilobytes at a time, not by the line.
func TestLastingLinesHardlyAllocate(t *testing.T) {
	s, l := scanner(t, "json", Mapping{Callers: callers(t, "key=k.id")}), &Line{Lasting: true}
	line := []byte(`{"time":1,"k":{"id":"a\"b"}}`)
	if n := testing.AllocsPerRun(10_000, func() { Scan(s, line, l) }); n > 0.1 {
		t.Errorf("got %v allocations a line", n)
	}
}

// TestTimeLayoutsOfMappings: one moment in every layout that a mapping can name.
func TestTimeLayoutsOfMappings(t *testing.T) {
	want := at(t, "2015-05-17T10:05:03Z")
	for layout, text := range map[string]string{
		"auto": "2015-05-17T10:05:03Z", "rfc3339": "2015-05-17T12:05:03+02:00", "clf": "17/May/2015:10:05:03 +0000", "unix": "1431857103",
		"unix_ms": "1431857103000", "unix_us": "1431857103000000", "unix_ns": "1431857103000000000",
	} {
		f, err := ParseMapping("m", []byte("version: 1\nformat: json\ncallers: {key: \"{k}\"}\ntime: {field: at, layout: "+layout+"}\n"), "", schemas.IDs{})
		if err != nil {
			t.Errorf("%s: %v", layout, err)
			continue
		}
		l := new(Line)
		if got := Scan(f.Scanner(), []byte(`{"k":"a","at":"`+text+`"}`), l); got != OK || l.Time != want {
			t.Errorf("%s: %s: got %v, %d, want %d", layout, text, got, l.Time, want)
		}
	}
}

package ingest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/valyala/fastjson"

	"github.com/509da70d/floodgate/schemas"
)

// benchNginx is a line of nginx with escape=json.
const benchNginx = `{"time_iso8601":"2015-05-17T10:05:03+00:00","remote_addr":"83.149.9.216","request_method":"GET","request_uri":"/presentations/kibana-search.png?a=b","status":"200","body_bytes_sent":"203023","request_time":"0.012","http_referer":"http://semicomplete.com/","http_user_agent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1)","http_x_forwarded_for":""}`

// benchTemplates is a mapping as people will have it: a composite caller, resource templates, proxies, IPv6 by /64.
const benchTemplates = `
version: 1
format: nginx
callers: {ip: "{remote_addr}", ip_route: "{remote_addr}|{resource}"}
client: {address: remote_addr, forwarded: http_x_forwarded_for, trusted: [10.0.0.0/8], ipv6_prefix: 64}
time: {field: time_iso8601, layout: rfc3339}
resource: {field: request_uri, templates: ["/presentations/{file}", "/users/{id}", "/users/{id}/orders/{order}", "/static/{file...}"]}
status: status
cost: {field: body_bytes_sent}
`

// BenchmarkNginx reads fields that the mapping names; BenchmarkNginxDefaults looks for all names that are usual.
func BenchmarkNginx(b *testing.B) {
	benchScan(b, "nginx", Mapping{
		Client: Client{Address: "remote_addr"}, Time: "time_iso8601", Layout: TimeRFC3339, Resource: "request_uri", Status: "status", Cost: "body_bytes_sent",
	}, benchNginx)
}

func BenchmarkNginxDefaults(b *testing.B) { benchScan(b, "nginx", Mapping{}, benchNginx) }

// BenchmarkNginxMapped is the whole of it: mapping, canonical addresses, templates.
func BenchmarkNginxMapped(b *testing.B) {
	f, err := ParseMapping("bench", []byte(benchTemplates), "", schemas.IDs{})
	if err != nil {
		b.Fatal(err)
	}
	s, l, text := f.Scanner(), new(Line), []byte(benchNginx)
	b.ReportAllocs()
	for b.Loop() {
		if r := Scan(s, text, l); r != OK {
			b.Fatal(r)
		}
	}
}

func BenchmarkCombinedMapped(b *testing.B) {
	benchScan(b, "combined", Mapping{
		Callers: []CallerTemplate{{Kind: "ip_route", Template: "{ip}|{resource}"}},
		Routes:  []string{"/presentations/{file...}", "/users/{id}"},
	}, benchCombined)
}

// BenchmarkNginxEncodingJSON is what one would write first, without even looking at the path.
func BenchmarkNginxEncodingJSON(b *testing.B) {
	text := []byte(benchNginx)
	b.ReportAllocs()
	for b.Loop() {
		var l struct {
			Time   time.Time `json:"time_iso8601"`
			Addr   string    `json:"remote_addr"`
			URI    string    `json:"request_uri"`
			Status string    `json:"status"`
			Bytes  string    `json:"body_bytes_sent"`
		}
		if err := json.Unmarshal(text, &l); err != nil || l.Addr == "" {
			b.Fatal(err)
		}
	}
}

// BenchmarkNginxFastjson only finds the fields: it reads no time and no number.
func BenchmarkNginxFastjson(b *testing.B) {
	var p fastjson.Parser
	text := []byte(benchNginx)
	b.ReportAllocs()
	for b.Loop() {
		v, err := p.ParseBytes(text)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, key := range []string{"time_iso8601", "remote_addr", "request_uri", "status", "body_bytes_sent"} {
			n += len(v.GetStringBytes(key))
		}
		if n == 0 {
			b.Fatal("nothing found")
		}
	}
}

func BenchmarkCSV(b *testing.B) {
	benchScan(b, "csv", Mapping{Columns: []string{"time", "ip", "method", "path", "status", "bytes", "agent"}},
		`2015-05-17T10:05:03Z,83.149.9.216,GET,/presentations/kibana-search.png,200,203023,"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1)"`)
}

func BenchmarkLogfmt(b *testing.B) {
	benchScan(b, "logfmt", Mapping{},
		`time=2015-05-17T10:05:03Z remote_addr=83.149.9.216 method=GET path=/presentations/kibana-search.png status=200 bytes=203023 agent="Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1)"`)
}

// TestMappedLinesDoNotAllocate: in steady state, in every format.
func TestMappedLinesDoNotAllocate(t *testing.T) {
	for name, w := range writers(t) {
		s, l, line := scanner(t, name, w.mapping), new(Line), []byte(w.line("x"))
		if got := Scan(s, line, l); got != OK {
			t.Errorf("%s: got %v", name, got)
		}
		if n := testing.AllocsPerRun(100, func() { Scan(s, line, l) }); n != 0 {
			t.Errorf("%s: got %v allocations a line, want 0", name, n)
		}
	}
	f, err := ParseMapping("bench", []byte(benchTemplates), "", schemas.IDs{})
	if err != nil {
		t.Fatal(err)
	}
	s, l := f.Scanner(), new(Line)
	for _, addr := range []string{"83.149.9.216", "2001:DB8:0::1", "10.0.0.1"} {
		line := []byte(`{"time_iso8601":"2015-05-17T10:05:03+00:00","remote_addr":"` + addr + `","request_uri":"/users/7","http_x_forwarded_for":"::ffff:1.2.3.4, 10.9.9.9"}`)
		if got := Scan(s, line, l); got != OK {
			t.Errorf("%s: got %v", addr, got)
		}
		if n := testing.AllocsPerRun(100, func() { Scan(s, line, l) }); n != 0 {
			t.Errorf("%s: got %v allocations a line, want 0", addr, n)
		}
	}
}

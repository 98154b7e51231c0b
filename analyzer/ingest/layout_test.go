package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	nginxCombined = `nginx:$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
	nginxMain     = `nginx:$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time "$upstream_addr"`
)

func BenchmarkNginxCombined(b *testing.B) { benchScan(b, nginxCombined, Mapping{}, benchCombined) }
func BenchmarkNginxHostFirst(b *testing.B) {
	benchScan(b, nginxMain, Mapping{}, "example.com "+benchCombined+` 0.123 "10.0.0.1:80"`)
}

// BenchmarkNginxToCombined reads the same lines as combined and as nginx's log_format for it, in turn, and gives the speed of the
// second as a part of the first: the median of the turns, because a busy machine slows both. No two lines are alike.
func BenchmarkNginxToCombined(b *testing.B) {
	var lines [1000][]byte
	random := rand.New(rand.NewPCG(1, 2))
	for i := range lines {
		path := strings.Repeat("/items", 1+random.IntN(8))
		lines[i] = fmt.Appendf(nil, `%d.%d.%d.%d - - [17/May/2015:10:%02d:%02d +0000] "GET %s/%d HTTP/1.1" 200 %d "-" "curl/%d"`, 1+random.IntN(255),
			random.IntN(256), random.IntN(256), random.IntN(256), i/60, i%60, path, random.IntN(1e6), random.IntN(1e6), i)
	}
	turn := func(format string) func() float64 {
		s, l := scanner(b, format, Mapping{}), new(Line)
		return func() float64 {
			start := time.Now()
			for _, line := range lines {
				if r := Scan(s, line, l); r != OK {
					b.Fatal(r)
				}
			}
			return time.Since(start).Seconds()
		}
	}
	combined, nginx := turn("combined"), turn(nginxCombined)
	var ratios []float64
	for b.Loop() {
		ratios = append(ratios, combined()/nginx())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-combined")
}

func TestCompiledFormats(t *testing.T) {
	for _, c := range []struct {
		format, callers, line, want string
	}{
		{nginxCombined, "k=http_user_agent", peer + " - a b " + clfTime + ` "GET /a?b HTTP/1.1" 200 17 "-" "curl/8"`, "198.51.100.1 curl/8 GET /a 200 17"},
		{nginxMain, "k=host", "h.example " + peer + " - - " + clfTime + ` "GET /a HTTP/1.1" 429 17 "-" "x" 0.12 "10.0.0.1:80"`, "198.51.100.1 h.example GET /a 429 17"},
		{nginxMain, "k=request_time", "h.example " + peer + " - - " + clfTime + ` "GET /a HTTP/1.1" 429 17 "-" "x" 0.12 "10.0.0.1:80"`, "198.51.100.1 0.12 GET /a 429 17"},
		{nginxMain, "k=upstream_addr", victim + " " + peer + " - - " + clfTime + ` "GET /a HTTP/1.1" 429 17 "-" "x" 0.12 "10.0.0.1:80, 10.0.0.2:80"`, "198.51.100.1 10.0.0.1:80, 10.0.0.2:80 GET /a 429 17"},
		{"nginx:log_format main escape=json '$http_x_forwarded_for $remote_addr - $remote_user [$time_local] '\n  '\"$request\" $status';", "k=http_x_forwarded_for", victim + ", 10.0.0.9 " + peer + " - - " + clfTime + ` "GET /\"a HTTP/1.1" 200`, "198.51.100.1 203.0.113.9, 10.0.0.9 GET /\"a 200 0"},
		{`nginx:$time_iso8601|$remote_addr|${request_method}|$request_uri|$status`, "k=request_method", "2015-05-17T10:05:03+00:00|" + peer + "|GET|/a?b|404", "198.51.100.1 GET GET /a 404 0"},
		{`nginx:[$time_local] $scheme://$host$request_uri $status "$remote_addr"`, "k=scheme", clfTime + ` https://h/a 404 "` + peer + `"`, "198.51.100.1 https  404 0"},
		{`nginx:{"t":"$msec","ip":"$remote_addr","p":"$request_uri","s":$status,"k":"$http_x_key"}`, "k=k", `{"t":"1431857103.5","ip":"` + peer + `","p":"/a?b","s":404,"k":"v"}`, "198.51.100.1 v /a 404 0"},
		{`apache:%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i" %D`, "k=duration_us", peer + ` - "" ` + clfTime + ` "GET /\"a HTTP/1.1" 200 - "-" "x" 123`, `198.51.100.1 123 GET /\"a 200 0`},
		{`apache:LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined`, "k=in_user-agent", victim + ":80 " + peer + " - [x] " + clfTime + ` "GET /a HTTP/1.1" 200 17 "-" "a \"b"`, `198.51.100.1 a \"b GET /a 200 17`},
		{`apache:%{X-Forwarded-For}i %h %l %u %t "%r" %>s %b`, "k=user", "- " + peer + " - bob " + clfTime + ` "GET /a HTTP/1.1" 200 17`, "198.51.100.1 bob GET /a 200 17"},
	} {
		s, l := scanner(t, c.format, Mapping{Callers: callers(t, c.callers)}), roomy()
		got := Scan(s, []byte(c.line), l)
		if got != OK {
			t.Errorf("%s: %s: got %v", c.format, c.line, got)
			continue
		}
		text := strings.Join([]string{l.IDs[0], l.IDs[1], l.Resource, number(int64(l.Status)), number(l.Cost)}, " ")
		if l.Time < at(t, "2015-05-17T10:05:03Z") || l.Time > at(t, "2015-05-17T10:05:04Z") || text != c.want {
			t.Errorf("%s: %s: got %s, want %s", c.format, c.line, text, c.want)
		}
	}
}

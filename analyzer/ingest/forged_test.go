package ingest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// writer writes a line as a server of the format would, with text of a client's in every field that is the client's.
type writer struct {
	mapping Mapping
	line    func(text string) string
}

func quoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// writers returns one for each format. The client is 1.2.3.4, the time 2015-05-17T10:05:03Z, the status 200; whatever the
// client sends says otherwise.
func writers(t testing.TB) map[string]writer {
	t.Helper()
	clf := func(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) }
	percent := func(s string) string { return strings.NewReplacer(`"`, "%22", " ", "%20").Replace(s) }
	csv := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	object := func(format string) func(string) string {
		return func(s string) string { return fmt.Sprintf(strings.ReplaceAll(format, "%s", "%[1]s"), quoteJSON(s)) }
	}
	return map[string]writer{
		"combined": {line: func(s string) string {
			return `1.2.3.4 - - ` + clfTime + ` "GET /` + clf(s) + ` HTTP/1.1" 200 17 "` + clf(s) + `" "` + clf(s) + `"`
		}},
		"common": {line: func(s string) string { return `1.2.3.4 - - ` + clfTime + ` "GET /` + clf(s) + ` HTTP/1.1" 200 17` }},
		"envoy_text": {line: func(s string) string { // what it can't escape it must not be sent: see TestUnescapedQuotesAreRefused
			s = percent(s)
			return `[2015-05-17T10:05:03.000Z] "GET /` + s + ` HTTP/1.1" 200 - 0 17 1 1 "6.6.6.6, 1.2.3.4" "` + s + `" "id" "` + s + `" "10.0.0.1:80"`
		}},
		"alb": {line: func(s string) string {
			return `http 2015-05-17T10:05:03.000000Z app/lb/1 1.2.3.4:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 17 "GET http://a:80/` +
				percent(s) + ` HTTP/1.1" "` + clf(s) + `" - - arn "` + clf(s) + `" "-"`
		}},
		"json": {
			mapping: Mapping{Callers: callers(t, "ip=ip"), Status: "status", Resource: "path"},
			line:    object(`{"agent":%s,%s:{"ip":"6.6.6.6"},"time":"2015-05-17T10:05:03Z","ip":"1.2.3.4","status":200,"path":%s}`),
		},
		"nginx":   {line: object(`{"time_iso8601":"2015-05-17T10:05:03+00:00","http_user_agent":%s,"remote_addr":"1.2.3.4","request_uri":%s,"status":"200","http_x_forwarded_for":"6.6.6.6"}`)},
		"envoy":   {line: object(`{"user_agent":%s,"start_time":"2015-05-17T10:05:03.000Z","downstream_remote_address":"1.2.3.4:99","path":%s,"response_code":200,"x_forwarded_for":"6.6.6.6"}`)},
		"traefik": {line: object(`{"ClientAddr":"1.2.3.4:99","ClientHost":%s,"request_User-Agent":%s,"StartUTC":"2015-05-17T10:05:03Z","RequestPath":%s,"DownstreamStatus":200}`)},
		"caddy":   {line: object(`{"ts":1431857103,"request":{"remote_ip":"1.2.3.4","uri":%s,"headers":{"X":[%s,{"client_ip":"6.6.6.6"}]}},"status":200}`)},
		"ecs":     {line: object(`{"@timestamp":"2015-05-17T10:05:03Z","user_agent":{"original":%s},"source":{"ip":"1.2.3.4"},"url":{"path":%s},"http":{"response":{"status_code":200}}}`)},
		"logfmt": {line: func(s string) string {
			return `time=2015-05-17T10:05:03Z ip=1.2.3.4 status=200 agent=` + strconv.Quote(s) + ` path=` + strconv.Quote("/"+s)
		}},
		"csv": {
			mapping: Mapping{Columns: []string{"agent", "time", "ip", "path", "status"}},
			line:    func(s string) string { return csv(s) + ",2015-05-17T10:05:03Z,1.2.3.4," + csv("/"+s) + ",200" },
		},
		"tsv": {
			mapping: Mapping{Columns: []string{"agent", "time", "ip", "path", "status"}},
			line: func(s string) string {
				s = strings.ReplaceAll(s, "\t", `\t`)
				return s + "\t2015-05-17T10:05:03Z\t1.2.3.4\t/" + s + "\t200"
			},
		},
	}
}

// TestNobodyIsFramedInAnyFormat: whatever stands in the fields that a client controls, the line is about this client, at
// this time, and about nobody else: log injection, forged addresses, forged times.
func TestNobodyIsFramedInAnyFormat(t *testing.T) {
	texts := append(hostile(),
		`" 200 17 "-" "-"`, `6.6.6.6 - - `+clfTime+` "GET / HTTP/1.1" 200 17`, `","ip":"6.6.6.6","x":"`, `ip=6.6.6.6`, `" ip=6.6.6.6 x="`, "6.6.6.6",
		`",2030-01-01T00:00:00Z,6.6.6.6,/,200`, "\t2030-01-01T00:00:00Z\t6.6.6.6", `"},"remote_addr":"6.6.6.6"`, `\","ip":"6.6.6.6`, `\`, `\\"`,
		"2030-01-01T00:00:00Z", "1893456000", `x" ip="6.6.6.6`, `\" ip=6.6.6.6 \"`, "a=b ip=6.6.6.6", "client_ip", "remote_addr",
	)
	want := at(t, "2015-05-17T10:05:03Z")
	for _, name := range Formats()[1:] {
		w, known := writers(t)[name]
		if !known {
			t.Errorf("no line of %s is tried", name)
			continue
		}
		s, l := scanner(t, name, w.mapping), roomy()
		for _, text := range texts {
			line := []byte(w.line(text))
			if got := Scan(s, line, l); got != OK || l.IDs[0] != "1.2.3.4" || l.Time != want || l.Status != 200 {
				t.Errorf("%s: %.200q: got %v, %q, time %d, status %d", name, line, got, l.IDs, l.Time, l.Status)
			}
		}
	}
}

// TestEveryFormatTakesEveryTruncation: a line that is cut anywhere is about its client or about nobody, and no format
// panics or makes up a caller.
func TestEveryFormatTakesEveryTruncation(t *testing.T) {
	for name, w := range writers(t) {
		s, l, line := scanner(t, name, w.mapping), roomy(), w.line("x y")
		whole := at(t, "2015-05-17T10:05:03Z")
		for n := range len(line) {
			if got := Scan(s, []byte(line[:n]), l); got != OK {
				continue
			}
			if id := l.IDs[0]; !strings.HasPrefix("1.2.3.4", id) || l.Time > whole {
				t.Errorf("%s cut to %q: got %q, time %d", name, line[:n], l.IDs, l.Time)
			}
		}
	}
}

// TestUnescapedQuotesAreRefused: Envoy's text escapes nothing, so that a quote in a header shifts all that follows. Such a
// line counts for nobody: not for whom the client would like, either.
func TestUnescapedQuotesAreRefused(t *testing.T) {
	s, l := scanner(t, "envoy_text", Mapping{}), roomy()
	for _, line := range []string{
		`[2015-05-17T10:05:03.000Z] "GET /" 200 - 0 0 0 0 "6.6.6.6" "a HTTP/1.1" 200 - 0 17 1 1 "1.2.3.4" "b" "c" "d" "e"`,
		`[2015-05-17T10:05:03.000Z] "GET / HTTP/1.1" 200 - 0 17 1 1 "6.6.6.6" "x, 1.2.3.4" "b" "c" "d" "e"`,
	} {
		if got := Scan(s, []byte(line), l); got != Ambiguous {
			t.Errorf("%s: got %v, %q", line, got, l.IDs)
		}
	}
}

// TestForwardedAddresses: who may say where a request comes from, and who may not.
func TestForwardedAddresses(t *testing.T) {
	trust := func(networks ...string) (all []netip.Prefix) {
		for _, n := range networks {
			all = append(all, netip.MustParsePrefix(n))
		}
		return all
	}
	for _, c := range []struct {
		trusted       []netip.Prefix
		bits          int
		peer, forward string
		want          string
	}{
		{nil, 0, "1.2.3.4", "6.6.6.6", "1.2.3.4"},
		{trust("10.0.0.0/8"), 0, "1.2.3.4", "6.6.6.6", "1.2.3.4"},
		{trust("10.0.0.0/8"), 0, "10.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"},
		{trust("10.0.0.0/8"), 0, "10.0.0.1:443", "6.6.6.6, 1.2.3.4:99, 10.0.0.2", "1.2.3.4"},
		{trust("10.0.0.0/8"), 0, "10.0.0.1", "", "10.0.0.1"},
		{trust("10.0.0.0/8"), 0, "10.0.0.1", " , ,", "10.0.0.1"},
		{trust("10.0.0.0/8"), 0, "10.0.0.1", "10.0.0.9, 10.0.0.2", "10.0.0.9"},
		{trust("10.0.0.0/8"), 0, "10.0.0.1", "6.6.6.6, unknown, 10.0.0.2", "10.0.0.2"},
		{trust("::ffff:10.0.0.0/104"), 0, "::ffff:10.0.0.1", "::FFFF:1.2.3.4", "1.2.3.4"},
		{trust("2001:db8::/32"), 64, "2001:db8::1", "2001:DB9:1:2:3::4%eth0", "2001:db9:1:2::"},
		{trust("2001:db8::/32"), 64, "[2001:db8::1]:80", "[2001:db9:1:2:3::4]:80, 1.2.3.4", "1.2.3.4"},
		{nil, 64, "::ffff:1.2.3.4", "", "1.2.3.4"}, // a mask over mapped addresses would make one of all IPv4
		{nil, 0, "1.2.3.4, 6.6.6.6", "", ""},
	} {
		m := Mapping{Callers: callers(t, "key=id"), Client: Client{Address: "peer", Forwarded: "xff", Trusted: c.trusted}, IPv6Bits: c.bits}
		s, l := scanner(t, "json", m), roomy()
		line := fmt.Appendf(nil, `{"time":1,"id":"k","peer":%q,"xff":%q}`, c.peer, c.forward)
		if got := Scan(s, line, l); got != OK || l.IDs[0] != c.want {
			t.Errorf("%s: got %v, %q, want %q", line, got, l.IDs, c.want)
		}
	}
}

// fuzzFormat tries a decoder with lines of its golden log and with what its writer writes.
func fuzzFormat(f *testing.F, names ...string) {
	f.Helper()
	var scanners []Scanner
	for _, name := range names {
		w := writers(f)[name]
		scanners = append(scanners, scanner(f, name, w.mapping))
		for _, text := range hostile() {
			f.Add([]byte(w.line(text)))
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := string(line)
		for _, s := range scanners {
			l := roomy()
			if Scan(s, line, l) == OK {
				checkLine(t, line, l)
			}
		}
		if string(line) != before {
			t.Error("Scan changed the line")
		}
	})
}

func FuzzColumns(f *testing.F)   { fuzzFormat(f, "envoy_text", "alb") }
func FuzzObjects(f *testing.F)   { fuzzFormat(f, "nginx", "envoy", "traefik", "caddy", "ecs") }
func FuzzLogfmt(f *testing.F)    { fuzzFormat(f, "logfmt") }
func FuzzSeparated(f *testing.F) { fuzzFormat(f, "csv", "tsv") }

func FuzzAuto(f *testing.F) {
	for _, w := range writers(f) {
		f.Add([]byte(w.line("x") + "\n" + w.line(`"`)))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		s := scanner(t, FormatAuto, Mapping{})
		for line := range strings.Lines(string(log)) {
			l := roomy()
			if Scan(s, []byte(line), l) == OK && l.IDs[0] == "" {
				t.Errorf("%q: accepted without a caller", line)
			}
		}
	})
}

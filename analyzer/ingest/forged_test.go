package ingest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
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
	blanks := func(s string) string { return strings.NewReplacer("\t", "%09", "\r", "%0d").Replace(s) }
	percent := func(s string) string { return strings.NewReplacer(`"`, "%22", " ", "%20").Replace(s) }
	csv := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	object := func(format string) func(string) string {
		return func(s string) string { return fmt.Sprintf(strings.ReplaceAll(format, "%s", "%[1]s"), quoteJSON(s)) }
	}
	return map[string]writer{
		"combined": {line: func(s string) string {
			return `1.2.3.4 - - ` + clfTime + ` "GET /` + clf(s) + ` HTTP/1.1" 200 17 "` + clf(s) + `" "` + clf(s) + `"`
		}},
		"vhost_combined": {line: func(s string) string {
			return `6.6.6.6:80 1.2.3.4 - - ` + clfTime + ` "GET /` + clf(s) + ` HTTP/1.1" 200 17 "` + clf(s) + `" "` + clf(s) + `"`
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
		"lighttpd": {line: func(s string) string {
			return `1.2.3.4 6.6.6.6` + clf(s) + ` u` + clf(s) + ` ` + clfTime + ` "GET /` + clf(s) + ` HTTP/1.1" 200 17 "` + clf(s) + `" "` + clf(s) + `"`
		}},
		"haproxy": {line: func(s string) string {
			h := strings.NewReplacer(`"`, "#22", "#", "#23", "{", "#7B", "|", "#7C", "}", "#7D").Replace(s)
			return `1.2.3.4:33317 [17/May/2015:10:05:03.000] in~ be/<NOSRV> 0/0/-1/1/+2 200 +17 - - ---- 1/1/1/1/0 0/0 {` + h + `} {} "GET /` + h + ` HTTP/1.1"`
		}},
		"haproxy_tcp": {line: func(string) string {
			return `1.2.3.4:33317 [17/May/2015:10:05:03.000] in be/srv 0/0/7 17 -- 0/0/0/0/3 0/0`
		}},
		"istio_text": {line: func(s string) string {
			s = percent(s)
			return `[2015-05-17T10:05:03.000Z] "GET /` + s + ` HTTP/1.1" 200 - via_upstream - "-" 0 17 4 4 "6.6.6.6" "` + s + `" "id" "a" "10.0.0.1:80" out 10.0.0.1:3 10.0.0.2:80 1.2.3.4:46520 ` + s[:min(len(s), 99)] + ` default`
		}},
		"s3": {line: func(s string) string {
			return `owner bucket [17/May/2015:10:05:03 +0000] 1.2.3.4 - 3E57 REST.GET.OBJECT ` + percent(s) + ` "GET /` + percent(s) +
				` HTTP/1.1" 200 - 17 - 7 - "` + percent(s) + `" "` + s + `" -`
		}},
		"elb": {line: func(s string) string {
			return `2015-05-17T10:05:03.000000Z lb 1.2.3.4:2817 10.0.0.1:80 0 0 0 200 200 0 17 "GET http://a:80/` + percent(s) + ` HTTP/1.1" "` + clf(s) + `" - -`
		}},
		"squid": {line: func(s string) string {
			return `1431857103.000      7 1.2.3.4 TCP_MISS/200 17 GET http://a/` + url.PathEscape(s) + ` ` + url.PathEscape(s) + ` DIRECT/10.0.0.1 text/html`
		}},
		"w3c": {
			mapping: Mapping{Columns: []string{"date", "time", "cs-uri-stem", "cs(User-Agent)", "c-ip", "sc-status"}},
			line: func(s string) string {
				return `2015-05-17 10:05:03 /` + percent(blanks(s)) + ` a` + percent(blanks(s)) + ` 1.2.3.4 200`
			},
		},
		"cloudfront": {
			mapping: Mapping{Columns: []string{"date", "time", "cs-uri-stem", "c-ip", "sc-status"}},
			line: func(s string) string {
				return "2015-05-17\t10:05:03\t/" + percent(blanks(s)) + "\t1.2.3.4\t200"
			},
		},
		"gcp":        {line: object(`{"httpRequest":{"userAgent":%s,"requestUrl":%s,"status":200,"remoteIp":"1.2.3.4"},"timestamp":"2015-05-17T10:05:03Z"}`)},
		"cloudflare": {line: object(`{"ClientRequestUserAgent":%s,"ClientIP":"1.2.3.4","ClientRequestURI":%s,"EdgeStartTimestamp":1431857103000000000,"EdgeResponseStatus":200}`)},
		"matomo":     {line: object(`{"user_agent":%s,"ip":"1.2.3.4","path":%s,"status":"200","date":"2015-05-17T10:05:03+00:00"}`)},
		"ltsv": {line: func(s string) string {
			return "ua:" + blanks(s) + "\thost:1.2.3.4\ttime:[17/May/2015:10:05:03 +0000]\treq:GET /" + blanks(s) + " HTTP/1.1\tstatus:200"
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
// this time, and about nobody else: log injection, forged addresses, forged times. The sample of a format that has no writer here has
// lines in which a client tries to be 6.6.6.6, as the server writes them: TestNoSampleIsAboutAForgedAddress.
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
			continue
		}
		s, l := scanner(t, name, w.mapping), roomy()
		for _, text := range texts {
			line := []byte(w.line(text))
			if got := Scan(s, line, l); got != OK || l.IDs[0] != "1.2.3.4" || l.Time != want || l.Status != 200 && name != "haproxy_tcp" {
				t.Errorf("%s: %.200q: got %v, %q, time %d, status %d", name, line, got, l.IDs, l.Time, l.Status)
			}
		}
	}
}

// TestNoSampleIsAboutAForgedAddress.
func TestNoSampleIsAboutAForgedAddress(t *testing.T) {
	for _, name := range Formats()[1:] {
		log := string(sampleLog(t, name+".log"))
		if _, known := writers(t)[name]; !known && !strings.Contains(log, "6.6.6.6") {
			t.Errorf("%s.log: got no line in which a client tries to be 6.6.6.6, want one, as the server writes it", name)
		}
		s, l := scanner(t, name, golden(t, name)), roomy()
		for line := range strings.Lines(log) {
			if got := Scan(s, []byte(strings.TrimSuffix(line, "\n")), l); got == OK && slices.Contains(l.IDs, "6.6.6.6") {
				t.Errorf("%s: got a line about 6.6.6.6, which its client has made up: %s", name, line)
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

// TestForwardedAddresses: who may say where a request comes from, and who may not. Gates read the same file of cases; a log has
// all lines of X-Forwarded-For in one text.
func TestForwardedAddresses(t *testing.T) {
	var cases []struct {
		Name, Trusted, Peer string
		Lines               []string
		Want                string // "" is none
	}
	data, err := os.ReadFile("../../testdata/forwarded/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 40 {
		t.Fatalf("got %d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		var trusted []netip.Prefix
		for n := range strings.FieldsSeq(c.Trusted) {
			trusted = append(trusted, netip.MustParsePrefix(n))
		}
		m := Mapping{
			Callers: callers(t, "key=id"), Client: Client{Address: "peer", Forwarded: "xff", Trusted: trusted}, IDs: schemas.IDs{IPv6Prefix: 128},
		}
		s, l := scanner(t, "json", m), roomy()
		line := fmt.Appendf(nil, `{"time":1,"id":"k","peer":%s,"xff":%s}`, quoteJSON(c.Peer), quoteJSON(strings.Join(c.Lines, ", ")))
		if got := Scan(s, line, l); got != OK || l.IDs[0] != c.Want {
			t.Errorf("%s: %s: got %v, %q, want %q", c.Name, line, got, l.IDs, c.Want)
		}
	}
}

// TestForwardedAddressesAreCountedByNetwork: IPv6 by the prefix, IPv4 whole however it is written.
func TestForwardedAddressesAreCountedByNetwork(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
	for peer, c := range map[string]struct{ forwarded, want string }{
		"2001:db8::1":      {"2001:DB9:1:2:3::4%eth0", "2001:db9:1:2::"},
		"[2001:db8::1]:80": {"[2001:db9:1:2:3::4]:80, 1.2.3.4", "1.2.3.4"},
		"::ffff:1.2.3.4":   {"", "1.2.3.4"}, // a mask over mapped addresses would make one client of all IPv4
	} {
		m := Mapping{Callers: callers(t, "key=id"), Client: Client{Address: "peer", Forwarded: "xff", Trusted: trusted}, IDs: schemas.IDs{IPv6Prefix: 64}}
		s, l := scanner(t, "json", m), roomy()
		line := fmt.Appendf(nil, `{"time":1,"id":"k","peer":%q,"xff":%q}`, peer, c.forwarded)
		if got := Scan(s, line, l); got != OK || l.IDs[0] != c.want {
			t.Errorf("%s: got %v, %q, want %q", line, got, l.IDs, c.want)
		}
	}
}

// TestALogWithoutPeers: where the server itself wrote the last forwarded address, that is the client, unless it is a proxy.
func TestALogWithoutPeers(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}
	for forwarded, want := range map[string]string{
		"1.2.3.4": "1.2.3.4", "6.6.6.6, 1.2.3.4": "1.2.3.4", "6.6.6.6, 1.2.3.4, 10.0.0.1": "1.2.3.4", "10.0.0.2, 10.0.0.1": "10.0.0.2",
		"6.6.6.6, unknown": "", "6.6.6.6, unknown, 10.0.0.1": "10.0.0.1", ", ,": "", "": "",
	} {
		m := Mapping{Callers: callers(t, "key=id"), Client: Client{Forwarded: "xff", Trusted: trusted}}
		s, l := scanner(t, "json", m), roomy()
		line := fmt.Appendf(nil, `{"time":1,"id":"k","xff":%q}`, forwarded)
		if got := Scan(s, line, l); got != OK || l.IDs[0] != want {
			t.Errorf("%s: got %v, %q, want %q", line, got, l.IDs, want)
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

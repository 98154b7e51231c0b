package ingest

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// at returns the Unix nanoseconds of an RFC 3339 time.
func at(t testing.TB, s string) int64 {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.UnixNano()
}

const clfTime = "[17/May/2015:10:05:03 +0000]"

func TestCombinedReadsALine(t *testing.T) {
	s, l, line := scanner(t, "combined", Mapping{}), new(Line), []byte(benchCombined)
	if got := s.Scan(line, l); got != OK {
		t.Fatal(got)
	}
	if l.Time != at(t, "2015-05-17T10:05:03Z") || l.IDs[0] != "83.149.9.216" || l.Status != 200 || l.Cost != 203023 ||
		l.Resource != "GET /presentations/logstash-monitorama-2013/images/kibana-search.png" {
		t.Errorf("got %+v", l)
	}
	checkLine(t, line, l)
}

func TestCombinedRequests(t *testing.T) {
	s, l := scanner(t, "combined", Mapping{}), new(Line)
	for request, want := range map[string]string{
		"GET / HTTP/1.1":                      "GET /",
		"GET /a?b=c HTTP/1.1":                 "GET /a",
		"GET /a?b=c?d HTTP/2.0":               "GET /a",
		"GET /a HTTP/2":                       "GET /a",
		"GET /a":                              "GET /a", // HTTP/0.9
		"GET /a b HTTP/1.1":                   "GET /a b",
		"GET /% HTTP/1.1":                     "GET /%",
		"GET http://example.com/a?b HTTP/1.1": "GET /a",
		"GET http://example.com HTTP/1.1":     "GET /",
		"GET http://example.com?b HTTP/1.1":   "GET /",
		"CONNECT example.com:443 HTTP/1.1":    "CONNECT example.com:443",
		"OPTIONS * HTTP/1.1":                  "OPTIONS *",
		"GET - HTTP/1.1":                      "", // "-" is no value in this format, and no path that a server has
		`GET /a\"b HTTP/1.1`:                  `GET /a\"b`,
		`GET /a\\\" HTTP/1.1`:                 `GET /a\\\"`,
		`\x16\x03\x01\x02`:                    "",
		"-":                                   "",
		"":                                    "",
		" ":                                   "",
		"GET  HTTP/1.1":                       "",
		"GET /\xff\xfe\x1b[31m HTTP/1.1":      "GET /\xff\xfe\x1b[31m",
		"GET /" + strings.Repeat("a", 2*schemas.MaxResource) + " HTTP/1.1": "GET /" + strings.Repeat("a", schemas.MaxResource-5),
	} {
		line := "1.2.3.4 - - " + clfTime + ` "` + request + `" 404 17 "-" "-"`
		if got := s.Scan([]byte(line), l); got != OK || l.Resource != want || l.Status != 404 || l.Cost != 17 {
			t.Errorf("%q: got %v, resource %q, status %d, cost %d, want %q, 404, 17", request, got, l.Resource, l.Status, l.Cost, want)
		}
	}
}

func TestCombinedNumbers(t *testing.T) {
	s, l := scanner(t, "common", Mapping{}), new(Line)
	for text, want := range map[string]struct {
		status uint16
		cost   int64
	}{
		" 200 17": {200, 17}, " 200 17 ": {200, 17}, " 200 -": {200, 0}, " - 17": {0, 17}, " 200": {200, 0}, " 20": {0, 0}, "": {0, 0}, " ": {0, 0},
		" 200 ": {200, 0}, " 2000 17": {0, 17}, " 2x0 17": {0, 17}, "200 17": {0, 0}, " 200 1x7": {200, 0}, " 999 1": {999, 1},
		" 200 999999999999999999": {200, 999999999999999999}, " 200 9999999999999999999": {200, 0}, " 200 -5": {200, 0},
	} {
		if got := s.Scan([]byte("1.2.3.4 - - "+clfTime+` "GET / HTTP/1.1"`+text), l); got != OK || l.Status != want.status || l.Cost != want.cost {
			t.Errorf("%q: got %v, status %d, cost %d, want %v", text, got, l.Status, l.Cost, want)
		}
	}
}

// TestClientsCannotForgeATime: the user name is the client's to choose, and so are request, referer and agent.
func TestClientsCannotForgeATime(t *testing.T) {
	s, l := scanner(t, "combined", Mapping{Callers: callers(t, "user=user")}), new(Line)
	const forged = "[01/Jan/2030:00:00:00 +0000]"
	want := at(t, "2015-05-17T10:05:03Z")
	for _, line := range []string{
		"1.2.3.4 - " + forged + " " + clfTime + ` "GET / HTTP/1.1" 200 1`,
		"1.2.3.4 - a " + forged + " b " + clfTime + ` "GET / HTTP/1.1" 200 1`,
		"1.2.3.4 - - " + forged + " - " + clfTime + ` "GET / HTTP/1.1" 200 1`,
		"1.2.3.4 - " + forged + ` \"GET / HTTP/1.1\" ` + clfTime + ` "GET / HTTP/1.1" 200 1`, // Apache escapes quotes so
		"1.2.3.4 - " + forged + ` \x22GET / HTTP/1.1\x22 ` + clfTime + ` "GET / HTTP/1.1" 200 1`,
		"1.2.3.4 - - " + clfTime + ` "GET / ` + forged + ` \"x HTTP/1.1" 200 1`,
		"1.2.3.4 - - " + clfTime + ` "GET / HTTP/1.1" 200 1 "` + forged + ` " "` + forged + `] "`,
	} {
		if got := s.Scan([]byte(line), l); got != OK || l.Time != want {
			t.Errorf("%s: got %v, time %v", line, got, time.Unix(0, l.Time).UTC())
		}
	}
}

func TestCombinedReasons(t *testing.T) {
	s, l := scanner(t, "combined", Mapping{}), new(Line)
	for line, want := range map[string]Reason{
		"localhost - - " + clfTime + ` "GET / HTTP/1.1" 200 1`:            BadAddress,
		"1.2.3.400 - - " + clfTime + ` "GET / HTTP/1.1" 200 1`:            BadAddress,
		`{"time":"2015-05-17T10:05:03Z"}`:                                 BadAddress,
		" 1.2.3.4 - - " + clfTime + ` "GET / HTTP/1.1" 200 1`:             BadFormat,
		`1.2.3.4 - - [17/May/2015:10:05:03] "GET / HTTP/1.1" 200 1`:       BadTime,
		`1.2.3.4 - - [17/Mai/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`: BadTime,
		`1.2.3.4 - - "GET / HTTP/1.1" 200 1`:                              BadTime,
		`1.2.3.4 - - [17/May/2015:10:05:0`:                                BadTime,
		`1.2.3.4 - - [`:                                                   BadTime,
		`1.2.3.4[17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`:      BadAddress,
		"::ffff:1.2.3.4 - - " + clfTime + ` "GET / HTTP/1.1" 200 1`:       OK,
		"fe80::1%eth0 - - " + clfTime + ` "GET / HTTP/1.1" 200 1`:         OK,
		"1.2.3.4 " + clfTime:                                              BadFormat,
		"1.2.3.4 - - " + clfTime + ` 0.123 "GET / HTTP/1.1" 200 1`:        BadFormat,
		"1.2.3.4 - - [17/May/2015:10:05:03 +0000":                         OK, // cut just behind the time
	} {
		if got := s.Scan([]byte(line), l); got != want {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
}

// TestEveryTruncation: cut anywhere, the line counts from its time on, with all that is whole.
func TestEveryTruncation(t *testing.T) {
	s, l := scanner(t, "combined", Mapping{}), new(Line)
	readable := strings.Index(benchCombined, "]")
	for n := range len(benchCombined) + 1 {
		got := Scan(s, []byte(benchCombined[:n]), l)
		if (got == OK) != (n >= readable) {
			t.Errorf("cut to %q: got %v", benchCombined[:n], got)
		}
		if got == OK && (l.IDs[0] != "83.149.9.216" || l.Time != at(t, "2015-05-17T10:05:03Z")) {
			t.Errorf("cut to %q: got %+v", benchCombined[:n], l)
		}
		if n >= strings.Index(benchCombined, " 203023") && l.Status != 200 {
			t.Errorf("cut to %q: got status %d", benchCombined[:n], l.Status)
		}
	}
}

func TestCombinedMoreCallers(t *testing.T) {
	m := Mapping{Callers: callers(t, "user=user", "agent=agent", "ref=referer", "verb=method", "ip_route=ip+resource", "all=user+method+resource")}
	s, l := scanner(t, "combined", m), roomy()
	for line, want := range map[string]string{
		`1.2.3.4 - alice ` + clfTime + ` "GET /a?b HTTP/1.1" 200 1 "http://r/" "curl/8"`:        "1.2.3.4 alice curl/8 http://r/ GET 1.2.3.4|GET /a alice|GET|GET /a",
		`1.2.3.4 - alice b ` + clfTime + ` "GET /a?b HTTP/1.1" 200 1 "-" "-"`:                   "1.2.3.4 alice b   GET 1.2.3.4|GET /a alice b|GET|GET /a",
		`1.2.3.4 - - ` + clfTime + ` "-" 408 0 "-" "a\"b"`:                                      `1.2.3.4  a\"b    `,
		`host - bob ` + clfTime + ` "GET /" 200 1`:                                              " bob   GET  bob|GET|GET /",
		`1.2.3.4 - - ` + clfTime + ` "GET / HTTP/1.1" 200 1 "` + strings.Repeat("r", 300) + `"`: "1.2.3.4   " + schemas.ID(strings.Repeat("r", 300)) + " GET 1.2.3.4|GET / ",
		`1.2.3.4 - - ` + clfTime: "1.2.3.4      ",
	} {
		b := []byte(line)
		if got := s.Scan(b, l); got != OK || strings.Join(l.IDs, " ") != want {
			t.Errorf("%s: got %v, %q, want %q", line, got, strings.Join(l.IDs, " "), want)
		}
		checkLine(t, b, l)
	}
	only := scanner(t, "combined", Mapping{Callers: callers(t, "ref=referer")})
	for line, want := range map[string]Reason{
		`host - - ` + clfTime + ` "GET /" 200 1 "-" "-"`:                                BadAddress,
		`host - - ` + clfTime + ` "GET /" 200 1 "` + strings.Repeat("r", 300) + `" "-"`: OK,
		`host - - ` + clfTime + ` "GET /" 200 1 "` + strings.Repeat("r", 256) + `" "-"`: OK,
	} {
		if got := only.Scan([]byte(line), l); got != want {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
}

// combinedOracle is the format as a regular expression and the standard library read it.
var combinedOracle = regexp.MustCompile(`^([0-9a-fA-F.:]+) [0-9a-zA-Z_-]+ [^ "\[\].:]+ \[([^"\]]{26})\] "([A-Z]+) ([^ "?\\]+)(\?[^ "\\]*)? HTTP/[0-9]\.[0-9]" ([0-9]{3}) ([0-9]{1,15}|-)( "[^"\\]*" "[^"\\]*")?$`)

func FuzzCombined(f *testing.F) {
	f.Add([]byte(benchCombined))
	for _, a := range addresses() {
		f.Add([]byte(a + ` - - ` + clfTime + ` "GET /a?b HTTP/1.1" 200 17 "-" "a\"b"`))
	}
	f.Add([]byte(`2001:db8::9 - - ` + clfTime + ` "GET /a HTTP/1.1" 200 17`)) // counted with its network, as IPv6 is by default
	f.Add([]byte(`0.0.0.0 0 0 ` + clfTime + ` "A - HTTP/0.0" 000 0`))         // a target of "-"
	f.Add([]byte(`1.2.3.4 - ` + clfTime + ` \" ` + clfTime + ` "GET /\xff HTTP/1.1" 200 -`))
	s := scanner(f, "combined", Mapping{Callers: callers(f, "user=user", "agent=agent", "ip_route=ip+resource")})
	plain := scanner(f, "combined", Mapping{})
	f.Fuzz(func(t *testing.T, line []byte) {
		l, p := roomy(), roomy()
		before := string(line)
		got := s.Scan(line, l)
		if got == OK {
			checkLine(t, line, l)
		}
		if string(line) != before {
			t.Error("Scan changed the line")
		}
		if plainly := plain.Scan(line, p); plainly == OK && (got != OK || p.Time != l.Time || p.IDs[0] != l.IDs[0] || p.Resource != l.Resource) {
			t.Errorf("%q: alone %+v, with more callers %v %+v", line, p, got, l)
		}
		m := combinedOracle.FindSubmatch(line)
		if m == nil || len(line) > MaxLine {
			return
		}
		addr, addrErr := netip.ParseAddr(string(m[1]))
		when, timeErr := time.Parse("02/Jan/2006:15:04:05 -0700", string(m[2]))
		if addrErr != nil || timeErr != nil || when.Year() < minYear+1 || when.Year() > maxYear-1 || !strings.Contains(string(m[2]), when.Month().String()[:3]) {
			return
		}
		status, _ := strconv.Atoi(string(m[6]))
		cost, _ := strconv.ParseInt(string(m[7]), 10, 64)
		want := Line{Time: when.UnixNano(), Resource: schemas.Method(string(m[3])) + " " + pathOf(string(m[4])), Status: uint16(status), Cost: cost}
		if string(m[4]) == "-" { // "-" is no value in this format, also where a client wrote it: no server has such a path
			want.Resource = ""
		}
		want.resource(want.Resource)
		if got != OK || l.IDs[0] != (schemas.IDs{}).Addr(schemas.CanonicalAddr(addr)).String() || l.Time != want.Time || l.Resource != want.Resource ||
			l.Status != want.Status || l.Cost != want.Cost {
			t.Errorf("%q: got %v, %+v, want %+v", line, got, l, want)
		}
	})
}

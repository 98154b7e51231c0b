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

// TestLikeAddress: it must not miss what a server writes for the other end of a connection.
func TestLikeAddress(t *testing.T) {
	for text, want := range map[string]bool{
		"1.2.3.4":              true,
		"255.255.255.255":      true,
		"1.2.3.4:80":           true,
		"1.2.3.4,":             true,
		"::1":                  true,
		"::":                   true,
		"2001:db8::9":          true,
		"2001:DB8::9":          true,
		"[2001:db8::9]:80":     true,
		"[::1]":                true,
		"::ffff:1.2.3.4":       true,
		"fe80::1%eth0":         true,
		"fe80::1%25en0":        true,
		"unix:":                true,
		"unix:/run/nginx.sock": true,
		"":                     false,
		"-":                    false,
		"bob":                  false,
		"abc":                  false,
		"a.b":                  false,
		"host.example":         false,
		"localhost":            false,
		"42":                   false,
		"a:b":                  false,
		"John":                 false,
		"x@example.com":        false,
	} {
		if got := likeAddress(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestTwoReadings(t *testing.T) {
	for user, want := range map[string]bool{
		"a b":               false,
		"a - b":             true, // a client, its ident and its user
		"a - - b":           true,
		"a b -":             false,
		"- a":               false,
		"a -":               false,
		"- -":               false,
		"x h.example - -":   true,
		"h.example - -":     true,
		"h.example - bob":   true,
		"1.2.3.4 - -":       true,
		"a 1.2.3.4":         true,
		"1.2.3.4 a":         true,
		"a 1.2.3.4 b":       true,
		"a 1.2.3.4, b":      true,
		"unix: - -":         true,
		"  ":                false,
		"a  b":              false,
		"[a b]":             false,
		"2001:db8::1 - - ":  true,
		`\x22 a \x22`:       false,
		"fe80::1%eth0 - x":  true,
		"a b c d e f g h i": false,
	} {
		if got := twoReadings(user); got != want {
			t.Errorf("%q: got %v, want %v", user, got, want)
		}
	}
}

func TestVhosts(t *testing.T) {
	for line, want := range map[string]string{
		"h.example:80 rest of it": "rest of it",
		"[::1]:443 rest":          "rest",
		"2001:db8::1:443 rest":    "rest",
		"h:8080 ":                 "",
		"h.example rest":          "",
		"h.example: rest":         "",
		":80 rest":                "",
		"h:http rest":             "",
		"h:80":                    "",
		"":                        "",
		" h:80 rest":              "",
		"h:80x rest":              "",
	} {
		if got := afterVhost(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// TestOwners: what may stand between the client and the time.
func TestOwners(t *testing.T) {
	for text, want := range map[string]Reason{
		" - - ":             OK,
		" - bob ":           OK,
		" ident bob ":       OK,
		" john-doe_1 bob ":  OK,
		" - a b ":           OK,
		" ident a b ":       OK,
		" -   ":             OK,
		` - "" `:            OK,
		" - [x] ":           OK,
		" - 1.2.3.4 ":       Ambiguous,
		" - 1.2.3.4 - - ":   Ambiguous,
		" - h.example - - ": Ambiguous,
		" - unix: - - ":     Ambiguous,
		" h.example - ":     BadFormat,
		" h.example - - ":   BadFormat,
		" 1.2.3.4 - - ":     BadFormat,
		" 1.2.3.4 - ":       BadFormat,
		" ::1 - - ":         BadFormat,
		" unix: - - ":       BadFormat,
		" x 1.2.3.4 - - ":   BadFormat,
		" bob ":             BadFormat,
		" - ":               BadFormat,
		"  ":                BadFormat,
		" ":                 BadFormat,
		"":                  BadFormat,
		"- - ":              BadFormat,
		" - -":              BadFormat,
		`"" - `:             BadFormat,
	} {
		if got := new(combined).owner(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		proven := combined{proven: true}
		if got := proven.owner(text); got != want && (want != Ambiguous || got != OK) {
			t.Errorf("%q in a log that has shown its format: got %v, want %v", text, got, want)
		}
		strict := combined{strict: true}
		if strict.owner(" - bob "); strict.proven || strict.owner(text) != want {
			t.Errorf("%q: a line has proven the format of a log whose vhost a client may have written", text)
		}
	}
}

// TestAGroupOccursOnce: between two texts of clients, the fields of the server are found only where they cannot be taken for others.
func TestAGroupOccursOnce(t *testing.T) {
	const format = `nginx:$http_a $remote_addr - $remote_user [$time_local] "$request"`
	for before, want := range map[string]Reason{
		"- " + peer + " - -":                            OK,
		"x y z " + peer + " - a b":                      OK,
		"1.2.3.4, 5.6.7.8 " + peer + " - bob":           OK,
		victim + " x " + peer + " - bob":                OK,
		victim + " - x " + peer + " - bob":              OK,
		victim + " " + peer + " - bob":                  OK,
		"x " + victim + " - " + peer + " - bob":         Ambiguous,
		"x " + peer + " - a " + victim + " - b":         Ambiguous,
		"x " + peer + " - a " + victim + " -":           OK,
		"x y z":                                         BadFormat,
		peer + " - -":                                   BadFormat,
		"x unix: - bob":                                 BadAddress,
		"x " + strings.Repeat("1", maxBetween) + " - b": BadFormat,
	} {
		s, l := scanner(t, format, Mapping{}), roomy()
		got := Scan(s, []byte(before+" "+clfTime+` "GET / HTTP/1.1"`), l)
		if got != want || got == OK && l.IDs[0] != peer {
			t.Errorf("%s: got %v, %q, want %v", before, got, l.IDs, want)
		}
	}
}

// FuzzLayouts reads any line by any text of a configuration.
func FuzzLayouts(f *testing.F) {
	f.Add(strings.TrimPrefix(nginxMain, prefixNginx), "h "+benchCombined)
	f.Add(`%h %l %u %t "%r" %>s %b`, benchCombined)
	f.Add(`$a$b "$c" $remote_addr|$d|$status`, `"`)
	f.Add(`{"a":"$remote_addr","t":"$msec"}`, `{"a":"1.2.3.4","t":"1"}`)
	f.Fuzz(func(t *testing.T, layout, line string) {
		if len(layout)+len(line) > 4<<10 {
			return
		}
		for _, prefix := range []string{prefixNginx, prefixApache, prefixNginx + "escape=json "} {
			made, err := NewFormat(prefix+layout, Mapping{})
			if err != nil {
				continue
			}
			s, l := made.Scanner(), roomy()
			for n := range 3 {
				if Scan(s, []byte(line[:len(line)-len(line)*n/3]), l) == OK && l.IDs[0] == "" {
					t.Errorf("%q: %q: accepted without a caller", layout, line)
				}
			}
		}
	})
}

// FuzzClientOfALayout writes lines as nginx does, with any text in what clients choose, and reads the client only where it is.
func FuzzClientOfALayout(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text, text)
	}
	f.Add(victim+" - x", victim+" - -")
	layouts := []string{
		`$http_a $remote_addr - $remote_user [$time_local] "$http_a"`, `$http_a [$time_local] $remote_addr "$http_a"`, `"$http_a" $remote_addr [$time_local] $http_a`,
		`$http_a|$remote_addr|$remote_user|$time_iso8601|`, `$remote_user [$time_local] "$http_a" $remote_addr`, `[$time_local] $http_a ($remote_addr) $remote_user "$http_a"`,
	}
	f.Fuzz(func(t *testing.T, user, text string) {
		user, text = nginxEscape(user), nginxEscape(text)
		if len(user)+len(text) > MaxLine/8 {
			return
		}
		for _, layout := range layouts {
			line := strings.NewReplacer("$http_a", text, "$remote_user", user, "$remote_addr", peer, "$time_local", strings.Trim(clfTime, "[]"),
				"$time_iso8601", "2015-05-17T10:05:03+00:00").Replace(layout)
			s, l := scanner(t, prefixNginx+layout, Mapping{}), roomy()
			if got := Scan(s, []byte(line), l); got == OK && l.IDs[0] != peer {
				t.Errorf("%s: %s: got %q", layout, line, l.IDs)
			}
		}
	})
}

// TestAnIPv6PeerIsNoVhost: lighttpd's own format has the peer, the host and the user before the time. If the peer's last group looks like
// a port, the line looks like one of vhost_combined, in which the host, which the client chooses, would be the client. auto must not
// guess so; who names vhost_combined has said that the first word is a vhost.
func TestAnIPv6PeerIsNoVhost(t *testing.T) {
	for _, first := range []string{"2001:db8::9", "2001:db8:1:2:3:4:5:80", "::1", "::ffff:198.51.100.1", "fe80::1:443"} {
		for _, user := range []string{"-", "- -", "frank b", "- bob"} {
			line := first + " " + victim + " " + user + " " + clfTime + ` "GET / HTTP/1.1" 200 17 "-" "-"`
			l := roomy()
			if got := Scan(scanner(t, FormatAuto, Mapping{}), []byte(line), l); got == OK {
				t.Errorf("%s: got %q, want it refused", line, l.IDs)
			}
		}
	}
	for _, vhost := range []string{"www.example.com:80", "[2001:db8::9]:443", "203.0.113.9:80"} {
		line := vhost + " " + peer + " - - " + clfTime + ` "GET / HTTP/1.1" 200 17 "-" "-"`
		l := roomy()
		if got := Scan(scanner(t, FormatAuto, Mapping{}), []byte(line), l); got != OK || l.IDs[0] != peer {
			t.Errorf("%s: got %v, %q, want %s", line, got, l.IDs, peer)
		}
	}
}

package ingest

import (
	"fmt"
	"strings"
	"testing"
)

const innerLine = peer + ` - - ` + clfTime + ` "GET /a?b HTTP/1.1" 200 17 "-" "cu\"rl"`

// wrappedLines are what collectors write around a line: a prefix, or a JSON object. %s is the line, and %q the line as a JSON string
// without its quotes.
func wrappedLines() map[string]string {
	return map[string]string{
		"cri":                 "2024-01-02T09:04:05.123456789Z stdout F %s",
		"cri with zone":       "2024-01-02T09:04:05.123456789+01:00 stderr F %s",
		"docker json-file":    `{"log":"%q\n","stream":"stdout","time":"2024-01-02T09:04:05.123456789Z"}`,
		"journald":            `{"__REALTIME_TIMESTAMP":"1704186245000000","MESSAGE":"%q","_PID":"1","SYSLOG_IDENTIFIER":"nginx"}`,
		"Filebeat":            `{"@timestamp":"2024-01-02T09:04:05.000Z","message":"%q","log":{"offset":0,"file":{"path":"/var/log/nginx/access.log"}},"host":{"name":"web"}}`,
		"Vector":              `{"file":"/var/log/nginx/access.log","host":"web","message":"%q","source_type":"file","timestamp":"2024-01-02T09:04:05Z"}`,
		"Fluent Bit":          `{"date":1704186245.123,"log":"%q"}`,
		"Fluent Bit with CRI": `{"date":1704186245.123,"stream":"stdout","log":"2024-01-02T09:04:05.123456789Z stdout F %q"}`,
		"GCP":                 `{"insertId":"x","textPayload":"%q","timestamp":"2024-01-02T09:04:05Z","resource":{"type":"k8s_container"}}`,
		"syslog, RFC 3164":    "<190>Jan  2 09:04:05 web nginx: %s",
		"syslog in a file":    "Jan 12 09:04:05 web nginx[123]: %s",
		"syslog, no host":     "<190>Jan  2 09:04:05 nginx: %s",
		"rsyslog, ISO time":   "2024-01-02T09:04:05.123456+00:00 web nginx[123]: %s",
		"syslog, RFC 5424":    "<165>1 2024-01-02T09:04:05.003Z web nginx 123 ID47 - %s",
		"RFC 5424 with data":  `<165>1 2024-01-02T09:04:05.003Z web nginx 123 - [a@1 b="c \"]\" d"][e@2 f="g"] %s`,
	}
}

// TestAutoUnwraps: auto finds what is around a line and what is inside, and nothing of the inside is lost.
func TestAutoUnwraps(t *testing.T) {
	for name, layout := range wrappedLines() {
		for _, user := range []string{"-", "bob"} {
			inner := strings.Replace(innerLine, " - - ", " - "+user+" ", 1)
			quoted := quoteJSON(inner)
			line := strings.NewReplacer("%s", inner, "%q", quoted[1:len(quoted)-1]).Replace(layout)
			s, l := scanner(t, FormatAuto, Mapping{}), roomy()
			for range 3 {
				if got := Scan(s, []byte(line), l); got != OK || l.IDs[0] != peer || l.Resource != "GET /a" || l.Status != 200 || l.Time != at(t, "2015-05-17T10:05:03Z") {
					t.Errorf("%s: %s: got %v, %+v", name, line, got, l)
				}
			}
		}
	}
}

// TestAMappingNamesWhatIsAround, with the format inside given or found.
func TestAMappingNamesWhatIsAround(t *testing.T) {
	line := fmt.Sprintf(`{"log":"2024-01-02T09:04:05.1Z stdout F %s"}`, strings.ReplaceAll(strings.ReplaceAll(innerLine, `\`, `\\`), `"`, `\"`))
	for _, format := range []string{"combined", FormatAuto, nginxCombined} {
		s, l := scanner(t, format, Mapping{Unwrap: []string{"docker", "cri"}}), roomy()
		l.Lasting = true
		var kept []string
		for range 3 {
			if got := Scan(s, []byte(line), l); got != OK {
				t.Errorf("%s: got %v", format, got)
			}
			kept = append(kept, l.IDs[0], l.Resource)
		}
		if got := strings.Join(kept, " "); got != strings.TrimSpace(strings.Repeat(peer+" GET /a ", 3)) {
			t.Errorf("%s: got %s", format, got)
		}
		if got := Scan(s, []byte(innerLine), l); got != BadFormat {
			t.Errorf("%s: got %v for a line with nothing around it", format, got)
		}
	}
	if _, err := NewFormat("combined", Mapping{Unwrap: []string{"paper"}}); err == nil {
		t.Error("got no error for an unknown unwrap")
	}
	if _, err := NewFormat("combined", Mapping{Unwrap: []string{"cri", "cri", "cri", "cri"}}); err == nil {
		t.Error("got no error for too many")
	}
}

// TestTheRestOfALineIsNoLine: container runtimes cut long lines, and clients choose where. The rest may look like a line of somebody
// else.
func TestTheRestOfALineIsNoLine(t *testing.T) {
	forged := strings.Replace(innerLine, peer, victim, 1)
	long := peer + ` - - ` + clfTime + ` "GET /` + strings.Repeat("a", fullPart)
	quote := func(s string) string { return quoteJSON(s) }
	for name, lines := range map[string][]string{
		"cri": {
			"2024-01-02T09:04:05.1Z stdout F " + innerLine, "2024-01-02T09:04:05.1Z stdout P " + long, "2024-01-02T09:04:05.1Z stderr F " + innerLine,
			"2024-01-02T09:04:05.1Z stdout P " + forged, "2024-01-02T09:04:05.1Z stdout F " + forged, "2024-01-02T09:04:05.1Z stdout F " + innerLine,
		},
		"docker": {
			`{"log":` + quote(innerLine+"\n") + `,"stream":"stdout"}`, `{"log":` + quote(long) + `,"stream":"stdout"}`, `{"log":` + quote(innerLine+"\n") + `,"stream":"stderr"}`,
			`{"log":` + quote(forged+strings.Repeat("a", fullPart)) + `,"stream":"stdout"}`, `{"log":` + quote(forged+"\n") + `,"stream":"stdout"}`, `{"log":` + quote(innerLine+"\n") + `,"stream":"stdout"}`,
		},
	} {
		s, l, got := scanner(t, FormatAuto, Mapping{}), roomy(), ""
		for _, line := range lines {
			r := Scan(s, []byte(line), l)
			got += r.String() + " "
			if r == OK && l.IDs[0] != peer {
				t.Errorf("%s: got %q", name, l.IDs)
			}
		}
		if got != "ok ok ok continued continued ok " {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// FuzzUnwrap tries all wrappings on any line.
func FuzzUnwrap(f *testing.F) {
	for _, layout := range wrappedLines() {
		f.Add([]byte(strings.NewReplacer("%s", innerLine, "%q", "x").Replace(layout)))
	}
	var scanners []Scanner
	for _, name := range autoUnwraps() {
		scanners = append(scanners, scanner(f, FormatAuto, Mapping{Unwrap: []string{name}}))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := string(line)
		for _, s := range append(scanners, scanner(t, FormatAuto, Mapping{})) {
			l := roomy()
			if Scan(s, line, l) == OK && l.IDs[0] == "" {
				t.Errorf("%q: accepted without a caller", line)
			}
		}
		if string(line) != before {
			t.Error("Scan changed the line")
		}
	})
}

// TestRecordsHaveTheirLineInTheBody: a format of text reads the body, auto finds it, also inside of what a container runtime writes, and
// a format of JSON reads the attributes, unless the mapping says body. In a log that is no record, auto leaves a member body alone: it may
// be what a client has sent.
func TestRecordsHaveTheirLineInTheBody(t *testing.T) {
	quoted := quoteJSON(innerLine)
	record := `{"time":"2024-01-02T09:04:05Z","body":` + quoted + `,"client.address":"6.6.6.6"}`
	inCRI := `{"body":"2024-01-02T09:04:05.1Z stdout F ` + quoted[1:] + `}`
	for _, test := range []struct {
		format, line string
		mapping      Mapping
		records      bool
		want         string
	}{
		{"combined", record, Mapping{}, true, peer},
		{nginxCombined, record, Mapping{}, true, peer},
		{FormatAuto, record, Mapping{}, true, peer},
		{FormatAuto, inCRI, Mapping{}, true, peer},
		{FormatAuto, record, Mapping{}, false, ""},
		{"combined", record, Mapping{}, false, ""},
		{"combined", inCRI, Mapping{Unwrap: []string{"body", "cri"}}, true, peer},
		{FormatAuto, inCRI, Mapping{Unwrap: []string{"body", "cri"}}, true, peer},
		{"json", record, Mapping{Client: Client{Address: "client.address"}}, true, "6.6.6.6"},
	} {
		f, err := NewFormat(test.format, test.mapping)
		if err != nil {
			t.Fatal(err)
		}
		var found Finding
		f, _ = f.Reporting(func(at Finding) { found = at }).Noting(nil)
		if test.records {
			f = f.Records()
		}
		l := roomy()
		if reason := Scan(f.Scanner(), []byte(test.line), l); (reason == OK) != (test.want != "") || reason == OK && l.IDs[0] != test.want {
			t.Errorf("%s, %v, records %v: got %v, %q, want %q", test.format, test.mapping.Unwrap, test.records, reason, l.IDs, test.want)
		}
		if test.format == FormatAuto && test.want != "" && found.Format != "combined" {
			t.Errorf("%s: got %+v reported", test.line, found)
		}
	}
}

package ingest

import (
	"strconv"
	"strings"
	"testing"
)

// hostileTexts are what a client may send as its user agent, in the hope that a reader takes a part of it for what the collector
// wrote, or for another line.
func hostileTexts() map[string]string {
	forged := `203.0.113.66 - - [17/May/2015:10:05:03 +0000] "GET /forged HTTP/1.1" 200 17 "-" "-"`
	return map[string]string{
		"another line":              forged,
		"another message":           `","message":"` + forged + `","x":"`,
		"another log":               `\n","log":"` + forged,
		"another MESSAGE":           `","MESSAGE":"` + forged,
		"another textPayload":       `","textPayload":"` + forged,
		"an escaped quote":          `\\","log":"` + forged,
		"a prefix of a container":   "2024-01-02T09:04:05.1Z stdout F " + forged,
		"a prefix of syslog":        "<190>Jan  2 09:04:05 web nginx: " + forged,
		"the data of RFC 5424":      `[x y="203.0.113.66"] ` + forged,
		"a line that goes on":       "2024-01-02T09:04:05.1Z stdout P " + forged,
		"an object":                 `{"remote_addr":"203.0.113.66","request":"GET /forged HTTP/1.1"}`,
		"a surrogate cut in two":    `\ud83d ` + forged,
		"the end of a JSON string":  `"} {"log":"` + forged,
		"control characters":        "\x01\x02\x7f " + forged,
		"a user agent of a kB":      strings.Repeat("a", 1000) + forged,
		"an address and a bracket":  `203.0.113.66 - - [`,
		"a quote and an address":    `" 203.0.113.66 - - `,
		"a backslash at the end":    `203.0.113.66 \`,
		"two backslashes and quote": `203.0.113.66 \\" 200 1`,
	}
}

// asServersWrite is how nginx writes what a client sent: quotes, backslashes and control characters are escaped.
func asServersWrite(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == '"':
			b.WriteString(`\x22`)
		case c == '\\':
			b.WriteString(`\x5C`)
		case c < ' ' || c == 0x7f:
			b.WriteString(`\x` + string("0123456789ABCDEF"[c>>4]) + string("0123456789ABCDEF"[c&15]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// TestAClientCannotReachWhatIsAroundItsLine: whatever a client sends as its user agent, and whatever a collector writes around
// the line, the line counts for the peer or is refused. It never counts for another, and never for another resource.
func TestAClientCannotReachWhatIsAroundItsLine(t *testing.T) {
	plain := peer + ` - - ` + clfTime + ` "GET /a HTTP/1.1" 200 17 "-" "curl"`
	read := 0
	for wrapper, layout := range wrappedLines() {
		for text, agent := range hostileTexts() {
			s, l := scanner(t, FormatAuto, Mapping{}), roomy()
			for _, line := range []string{plain, strings.Replace(plain, "curl", asServersWrite(agent), 1), plain} {
				quoted := quoteJSON(line)
				wrapped := strings.NewReplacer("%s", line, "%q", quoted[1:len(quoted)-1]).Replace(layout)
				switch got := Scan(s, []byte(wrapped), l); {
				case got != OK && line == plain:
					t.Errorf("%s: %s: a plain line beside it: got %v", wrapper, text, got)
				case got != OK:
				case l.IDs[0] != peer || l.Resource != "GET /a":
					t.Errorf("%s: %s: got %s for %q, want %s for GET /a", wrapper, text, l.IDs[0], l.Resource, peer)
				default:
					read++
				}
			}
		}
	}
	if all := 3 * len(wrappedLines()) * len(hostileTexts()); read < all*95/100 {
		t.Errorf("got %d of %d lines read, want nearly all", read, all)
	}
}

// journaldBytes is how journald writes a line that is no text: as a list of its bytes.
func journaldBytes(line, between string) string {
	var b strings.Builder
	for i, c := range []byte(line) {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(strconv.Itoa(int(c)))
	}
	return `{"MESSAGE":[` + b.String() + `],"_PID":"1"}`
}

// TestAClientCannotHideFromJournald: one byte that is no text makes journald write the line as a list of numbers. It counts all the same.
func TestAClientCannotHideFromJournald(t *testing.T) {
	inner := strings.Replace(innerLine, "cu", "cu\x01\xff", 1)
	for _, mapping := range []Mapping{{}, {Unwrap: []string{"journald"}}} {
		for _, between := range []string{",", ", "} {
			s, l := scanner(t, FormatAuto, mapping), roomy()
			for range 3 {
				if got := Scan(s, []byte(journaldBytes(inner, between)), l); got != OK || l.IDs[0] != peer || l.Resource != "GET /a" || l.Status != 200 {
					t.Errorf("got %v, %+v", got, l)
				}
			}
		}
	}
	for _, list := range []string{"", "256", "-1", "71,", "71,[69]", `"71"`, "7 1", "1e1", "71,null", strings.Repeat("9", 1000)} {
		s, l := scanner(t, FormatAuto, Mapping{Unwrap: []string{"journald"}}), roomy()
		if got := Scan(s, []byte(`{"MESSAGE":[`+list+`]}`), l); got == OK || got == Continued {
			t.Errorf("[%s]: got %v, want it refused", list, got)
		}
	}
}

package ingest

import (
	"strings"
	"testing"
)

// victim is an address that never sent a request. peer sent all of them.
const (
	victim = "203.0.113.9"
	peer   = "198.51.100.1"
)

// foreignLogs are formats that are not the common one, as real configurations have them. $x is text that the client sends.
func foreignLogs() map[string]string {
	const request = ` [$t] "GET / HTTP/1.1" 200 17 "-" "$x"`
	return map[string]string{
		"nginx, $host first":                       "$x " + peer + " - -" + request,
		"nginx, $host first, a user":               "$x " + peer + " - bob" + request,
		"nginx, $host and $remote_user":            "$x - " + peer + request,
		"nginx, $host and no ident":                "$x " + peer + " -" + request,
		"nginx, $host:$server_port first":          "$x:80 " + peer + " - -" + request,
		"nginx, $http_x_forwarded_for first":       "$x " + peer + " - -" + request,
		"nginx, the same, a user":                  "$x " + peer + " - b c" + request,
		"nginx, the same on a socket":              "$x unix: - -" + request,
		"Apache, %{X-Forwarded-For}i first":        "$x " + peer + " - -" + request,
		"Apache, the same with HostnameLookups":    "$x host.example - -" + request,
		"Apache, %V %h":                            "$x " + peer + " - frank" + request,
		"a key first":                              "$x ip=" + peer + ` time=$t path="/"`,
		"IPv6":                                     "$x 2001:db8::1 - -" + request,
		"a mapped address":                         "$x ::ffff:" + peer + " - -" + request,
		"a zone":                                   "$x fe80::1%eth0 - -" + request,
		"nginx, the host and the client in quotes": `"$x" "` + peer + `"` + request,
		"nginx, $host behind the client":           peer + " $x - -" + request,
	}
}

// TestAClientCannotChooseWhoIsCounted: a log has a format that is like the common one, and clients send an address of somebody
// else, or several words, where the common format has the client. The line counts for nobody.
func TestAClientCannotChooseWhoIsCounted(t *testing.T) {
	const (
		forged = "[01/Jan/2030:00:00:00 +0000]"
		peers  = peer + " 2001:db8:: fe80::"
	)
	texts := []string{
		victim, victim + " -", victim + " - -", victim + " - - ", victim + " - x", victim + " - " + victim, victim + ", " + peer, victim + ",",
		victim + " - - " + forged, victim + " - - " + forged + ` \"GET /\" 200 17`, victim + " - - " + forged + ` \x22GET / HTTP/1.1\x22 200 17`,
		victim + " x", victim + " x y", victim + "  ", victim + ":80", "[2001:db8::9]:80", "2001:db8::9", "time=1 ip=" + victim, "time=1 ip=" + victim + " x",
	}
	for _, format := range []string{"combined", "common", FormatAuto} {
		for name, layout := range foreignLogs() {
			for _, text := range texts {
				line := strings.NewReplacer("$x", text, "$t", strings.Trim(clfTime, "[]")).Replace(layout)
				s, l := scanner(t, format, Mapping{}), roomy()
				got := Scan(s, []byte(line), l)
				if got == OK && !strings.Contains(peers, l.IDs[0]) { // vhost_combined finds the peer behind NAME:PORT
					t.Errorf("%s: %s: %s: got %q", format, name, line, l.IDs)
				}
			}
		}
	}
}

// TestAutoGivesUpALogOfAnotherFormat: a client cannot make auto take a line for one of a format that the log does not have.
func TestAutoGivesUpALogOfAnotherFormat(t *testing.T) {
	behind := " " + peer + " - bob " + clfTime + ` "GET / HTTP/1.1" 200 17 "-" "-"`
	for _, text := range []string{
		"x:80 " + victim + " - -", "x:80 " + victim + " - x", "1431857103.000 310 " + victim + " TCP_MISS/200 1 GET http://x",
		victim + ":1 [17/May/2015:10:05:03.000] a b/c 1/1/1/1/1 200 1 ", "2015-05-17T10:05:03Z stdout F " + victim + " - - ",
		"http 2015-05-17T10:05:03Z lb " + victim + ":1 - 0 0 0 200 200 1 1 x", "<1>May 17 10:05:03 h n: " + victim + " - x",
	} {
		s, l := scanner(t, FormatAuto, Mapping{}), roomy()
		for n := range 10 {
			line := "- " + peer + " - - " + clfTime + ` "GET / HTTP/1.1" 200 17 "-" "-"`
			if n >= maxRefused {
				line = text + behind
			}
			if got := Scan(s, []byte(line), l); got == OK {
				t.Errorf("%s: got %q", line, l.IDs)
			}
		}
	}
	s, l := scanner(t, FormatAuto, Mapping{}), roomy()
	for _, text := range []string{"x:9", "x:80 " + victim + " - -"} { // the first to write something
		if got := Scan(s, []byte(text+behind), l); got == OK && l.IDs[0] != peer {
			t.Errorf("%s: got %q", text, l.IDs)
		}
	}
}

// TestAUserNameWithSpacesCounts: a user name cannot keep a line from being counted in a log of this format, and cannot move its
// client.
func TestAUserNameWithSpacesCounts(t *testing.T) {
	for _, user := range []string{
		"John Smith", " ", "  ", "a  b", " a", "a ", `\"\"`, `""`, "[x]", "- x", "x -", "bob [01/Jan/2030:00:00:00 +0000]",
	} {
		s, l := scanner(t, "combined", Mapping{}), roomy()
		if got := Scan(s, []byte(peer+" - "+user+" "+clfTime+` "GET / HTTP/1.1" 200 17`), l); got != OK || l.IDs[0] != peer {
			t.Errorf("%q: got %v, %q", user, got, l.IDs)
		}
	}
	s, l := scanner(t, "combined", Mapping{}), roomy()
	for _, step := range []struct {
		user string
		want Reason
	}{
		{victim + " - -", Ambiguous}, {victim, Ambiguous}, {"bob", OK}, // from here on, the log has shown its format
		{victim + " - -", OK}, {victim, OK}, {"x host.example - -", OK},
	} {
		got := Scan(s, []byte(peer+" - "+step.user+" "+clfTime+` "GET / HTTP/1.1" 200 17`), l)
		if got != step.want || got == OK && l.IDs[0] != peer {
			t.Errorf("%q: got %v, %q, want %v", step.user, got, l.IDs, step.want)
		}
	}
}

// FuzzWhoIsCounted writes lines as nginx does, with any text in all places that a client chooses. In the combined format the
// client is the peer; in a log that has the host or X-Forwarded-For before it, nobody else is.
func FuzzWhoIsCounted(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text, text)
	}
	f.Add(victim+" - -", victim+" - x")
	f.Fuzz(func(t *testing.T, user, text string) {
		user, text = nginxEscape(user), nginxEscape(text)
		if len(user)+len(text) > MaxLine/4 {
			return
		}
		after := ` "GET /` + text + ` HTTP/1.1" 200 17 "` + text + `" "` + text + `"`
		for _, name := range []string{"combined", "common", FormatAuto} {
			s, l := scanner(t, name, Mapping{}), roomy()
			if got := Scan(s, []byte(peer+" - - "+clfTime+after), l); got != OK || l.IDs[0] != peer {
				t.Errorf("%s: got %v, %q", name, got, l.IDs)
			}
			if got := Scan(s, []byte(peer+" - "+user+" "+clfTime+after), l); got != OK || l.IDs[0] != peer || l.Time != at(t, "2015-05-17T10:05:03Z") {
				t.Errorf("%s: user %q: got %v, %q", name, user, got, l.IDs)
			}
			for _, before := range []string{text + " " + peer + " - ", text + " - " + peer + " - "} {
				s := scanner(t, name, Mapping{})
				if got := Scan(s, []byte(before+user+" "+clfTime+after), l); got == OK && l.IDs[0] != peer {
					t.Errorf("%s: before %q, user %q: got %q", name, before, user, l.IDs)
				}
			}
		}
	})
}

// nginxEscape returns s as nginx writes a variable into a log: quotes, backslashes and bytes outside of ASCII's letters as \xXX,
// and "-" for nothing.
func nginxEscape(s string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			out.WriteString(`\x` + string(digits[c>>4]) + string(digits[c&15]))
		} else {
			out.WriteByte(c)
		}
	}
	if out.Len() == 0 {
		return "-"
	}
	return out.String()
}

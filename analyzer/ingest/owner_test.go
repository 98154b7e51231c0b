package ingest

import (
	"strings"
	"testing"
)

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

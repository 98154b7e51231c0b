package ingest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestProxiesOfOnesOwnAreNoticed: a log whose callers are load balancers says so, and whether what would help is in the lines.
func TestProxiesOfOnesOwnAreNoticed(t *testing.T) {
	const (
		private  = "private addresses"
		unread   = "end in a quoted address that is not counted"
		noField  = "no line has forwarded addresses"
		noPeer   = "no line comes from one of their networks"
		combined = `%s - - [14/Mar/2026:09:00:05 +0000] "GET / HTTP/1.1" 200 10 "-" "curl"`
	)
	tens := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, test := range map[string]struct {
		format  string
		trusted []netip.Prefix
		line    string // with a client's address
		client  string // "" is one that differs from line to line, and is public
		count   int
		want    []string
	}{
		"clients":                           {"auto", nil, combined, "", 100, nil},
		"load balancers":                    {"auto", nil, combined, "10.0.0.7", 100, []string{private}},
		"of a cloud":                        {"auto", nil, combined, "100.64.3.7", 100, []string{private}},
		"of IPv6":                           {"combined", nil, combined, "fd00::7", 100, []string{private}},
		"a few lines":                       {"auto", nil, combined, "10.0.0.7", 19, nil},
		"forwarded, but not read":           {"auto", nil, combined + ` "198.51.100.7"`, "10.0.0.7", 100, []string{unread, private}},
		"a list of them":                    {"auto", nil, combined + ` "203.0.113.9, 198.51.100.7"`, "10.0.0.7", 100, []string{unread, private}},
		"behind public proxies":             {"auto", nil, combined + ` "198.51.100.7"`, "", 100, []string{unread}},
		"something else quoted":             {"auto", nil, combined + ` "gzip"`, "", 100, nil},
		"read":                              {"auto", tens, combined + ` "198.51.100.7"`, "10.0.0.7", 100, nil},
		"trusted, and not forwarded":        {"auto", tens, combined, "10.0.0.7", 100, []string{noField, private}},
		"trusted in a format that has none": {"common", tens, combined, "10.0.0.7", 100, []string{noField, private}},
		"nginx without the variable":        {`nginx:$remote_addr [$time_local] "$request"`, tens, `%s [14/Mar/2026:09:00:05 +0000] "GET / HTTP/1.1"`, "10.0.0.7", 100, []string{noField, private}},
		"another network is trusted":        {"auto", tens, combined + ` "198.51.100.7"`, "192.168.0.7", 100, []string{noPeer, private}},
		"forged by a client":                {"auto", tens, combined + ` "10.0.0.9"`, "", 100, []string{noPeer}},
		"JSON":                              {"json", nil, `{"time":"2026-03-14T09:00:05Z","client":"%s","xff":"198.51.100.7"}`, "10.0.0.7", 100, []string{private}},
	} {
		t.Run(name, func(t *testing.T) {
			m := Mapping{Client: Client{Trusted: test.trusted}}
			if test.format == "json" {
				m.Client.Address = "client"
			}
			plain, err := NewFormat(test.format, m)
			if err != nil {
				t.Fatal(err)
			}
			format, behind := plain.Noting(nil)
			s, l := format.Scanner(), roomy()
			for i := range test.count {
				client := test.client
				if client == "" {
					client = fmt.Sprintf("203.0.113.%d", i)
				}
				if reason := Scan(s, fmt.Appendf(nil, test.line, client), l); reason != OK {
					t.Fatalf("got %v", reason)
				}
			}
			advice := behind.Advice()
			if len(advice) != len(test.want) {
				t.Fatalf("got %q, want %d: %q", advice, len(test.want), test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(advice[i], want) {
					t.Errorf("got %q, want %q", advice[i], want)
				}
			}
		})
	}
}

// TestALogThatGoesOnIsJudgedOnce, when enough lines have come.
func TestALogThatGoesOnIsJudgedOnce(t *testing.T) {
	plain, err := NewFormat("combined", Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	var judged [][]string
	format, _ := plain.Noting(func(advice []string) { judged = append(judged, advice) })
	s, l := format.Scanner(), roomy()
	for i := range 5 * behindJudged {
		if before := len(judged); before != min(1, i/behindJudged) {
			t.Fatalf("after %d lines: got %q", i, judged)
		}
		Scan(s, []byte(`10.0.0.7 - - [14/Mar/2026:09:00:05 +0000] "GET / HTTP/1.1" 200 10 "-" "curl"`), l)
	}
}

// TestCombinedReadsWhatItsProxiesForward, in the field behind the user agent, and only of proxies that are trusted. What the client
// forged stands before what the proxy wrote.
func TestCombinedReadsWhatItsProxiesForward(t *testing.T) {
	const head, tail = `10.0.0.7 - - [14/Mar/2026:09:00:05 +0000] "GET / HTTP/1.1" 200 10 "-" "agent \" 192.0.2.66"`, ` "198.51.100.7"`
	for name, test := range map[string]struct{ line, trusting, trustless string }{
		"one":               {head + tail, "198.51.100.7", "10.0.0.7"},
		"none":              {head, "10.0.0.7", "10.0.0.7"},
		"a dash":            {head + ` "-"`, "10.0.0.7", "10.0.0.7"},
		"forged":            {head + ` "192.0.2.66, 198.51.100.7"`, "198.51.100.7", "10.0.0.7"},
		"two proxies":       {head + ` "198.51.100.7, 10.1.1.1"`, "198.51.100.7", "10.0.0.7"},
		"a public peer":     {strings.Replace(head, "10.0.0.7", "203.0.113.1", 1) + tail, "203.0.113.1", "203.0.113.1"},
		"a later field":     {head + ` 0.003 "198.51.100.7"`, "10.0.0.7", "10.0.0.7"},
		"no address":        {head + ` "www.example.com"`, "10.0.0.7", "10.0.0.7"},
		"cut":               {head + ` "192.0.2.66, 198.51.100.7`, "10.0.0.7", "10.0.0.7"},
		"vhost of Debian's": {"example.com:80 " + head + tail, "198.51.100.7", "10.0.0.7"},
	} {
		formats := []string{"combined", "auto"}
		if strings.HasPrefix(name, "vhost") {
			formats = []string{"vhost_combined", "auto"}
		}
		for _, format := range formats {
			for _, trusted := range []bool{true, false} {
				want, m := test.trustless, Mapping{}
				if trusted {
					want, m.Client.Trusted = test.trusting, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
				}
				f, err := NewFormat(format, m)
				if err != nil {
					t.Fatal(err)
				}
				l := roomy()
				if reason := Scan(f.Scanner(), []byte(test.line), l); reason != OK || !slices.Equal(l.IDs, []string{want}) {
					t.Errorf("%s by %s, trusted %t: got %v %q, want %s", name, format, trusted, reason, l.IDs, want)
				}
			}
		}
	}
}

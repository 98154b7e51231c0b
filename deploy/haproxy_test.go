package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// TestHAProxyCountsAnAddressAndAKey: mapping.yaml reads both from the log that haproxy.cfg describes, a refused request is blocked, and the
// configuration has a map for each kind that the command of the sidecar names.
func TestHAProxyCountsAnAddressAndAKey(t *testing.T) {
	format, err := ingest.LoadMapping("haproxy/mapping.yaml", "", schemas.IDs{})
	if err != nil {
		t.Fatal(err)
	}
	if kinds := format.Kinds(); !slices.Equal(kinds, []string{"ip", "key"}) {
		t.Fatalf("got callers of kind %v, want ip and key", kinds)
	}
	config := readFile(t, "haproxy/haproxy.cfg")
	found := regexp.MustCompile(`(?m)^ *log-format '(.*)'$`).FindStringSubmatch(config)
	if found == nil {
		t.Fatal("got no log-format in haproxy.cfg")
	}
	for _, test := range []struct{ key, status, closed, want string }{
		{"abc", "200", "-", `[203.0.113.9 abc] "GET /search" 200 false`},
		{"-", "200", "-", `[203.0.113.9 ] "GET /search" 200 false`}, // HAProxy writes - for what is not there
		{"-", "429", "per-ip", `[203.0.113.9 ] "GET /search" 429 true`},
	} {
		line := strings.NewReplacer("%Ts", "1773478800", "%ms", "123", "%ci", "203.0.113.9", "%[capture.req.method,json(utf8s)]", "GET", "%ST", test.status, "%B", "12",
			"%[var(txn.path),json(utf8s)]", `\/search`, "%[var(txn.key),json(utf8s)]", test.key, "%[var(txn.closed),field(2,:)]", test.closed).Replace(found[1])
		var l ingest.Line
		reason := ingest.Scan(format.Scanner(), []byte(line), &l)
		if got := fmt.Sprintf("%v %q %d %v", l.IDs, l.Resource, l.Status, l.Blocked); reason != ingest.OK || got != test.want {
			t.Errorf("%s: got %v, %s, want %s", line, reason, got, test.want)
		}
	}
	maps := regexp.MustCompile(`--haproxy-map (\S+)`).FindStringSubmatch(config)
	if maps == nil || !strings.Contains(readFile(t, "haproxy/mapping.yaml"), maps[0]) {
		t.Fatalf("got %q in haproxy.cfg, want the same flag in it and in mapping.yaml", maps)
	}
	for text := range strings.SplitSeq(maps[1], ",") {
		_, file, _ := strings.Cut(text, "=")
		if n := strings.Count(config, "("+file+")"); n != 2 {
			t.Errorf("got %s in %d lines of haproxy.cfg, want it in the frontend and in backend closed", file, n)
		}
	}
}

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

// nginxLine returns a line that nginx writes with the log format of a file of deploy/nginx, for these values of variables.
func nginxLine(t *testing.T, file string, values map[string]string) string {
	t.Helper()
	parts := regexp.MustCompile(`(?s)log_format floodgate escape=json(.*?);`).FindStringSubmatch(readFile(t, "nginx/"+file))
	if parts == nil {
		t.Fatalf("got no log_format in %s", file)
	}
	text := ""
	for _, quoted := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(parts[1], -1) {
		text += quoted[1]
	}
	return regexp.MustCompile(`\$\w+`).ReplaceAllStringFunc(text, func(v string) string { return values[v[1:]] })
}

// TestNginxCountsAnAddressAndAKey: the README's commands count both, by the log that floodgate.conf describes, and the sidecar asks about
// both. A key that only one side knows is never refused, and nobody says so.
func TestNginxCountsAnAddressAndAKey(t *testing.T) {
	format, err := ingest.LoadMapping("nginx/mapping.yaml", "", schemas.IDs{})
	if err != nil {
		t.Fatal(err)
	}
	if kinds := format.Kinds(); !slices.Equal(kinds, []string{"ip", "key"}) {
		t.Fatalf("got callers of kind %v, want ip and key", kinds)
	}
	for _, file := range []string{"floodgate.conf", "floodgate-lua.conf"} {
		for _, test := range []struct{ key, status, want string }{
			{"abc", "200", `[203.0.113.9 abc] "GET /search" 200 false`}, {"", "200", `[203.0.113.9 ] "GET /search" 200 false`},
			{"abc", "429", `[203.0.113.9 abc] "GET /search" 429 true`}, // refused: recorded as blocked
		} {
			line := nginxLine(t, file, map[string]string{
				"msec": "1773478800.123", "remote_addr": "203.0.113.9", "request_method": "GET", "uri": "/search", "status": test.status, "http_x_api_key": test.key,
				"floodgate": "closed per-key",
			})
			var l ingest.Line
			reason := ingest.Scan(format.Scanner(), []byte(line), &l)
			if got := fmt.Sprintf("%v %q %d %t", l.IDs, l.Resource, l.Status, l.Blocked); reason != ingest.OK || got != test.want {
				t.Errorf("%s: got %v, %s, want %s", line, reason, got, test.want)
			}
		}
	}
	log := regexp.MustCompile(`(?m)^ *access_log (\S+) floodgate;$`).FindStringSubmatch(readFile(t, "nginx/floodgate.conf"))
	if log == nil {
		t.Fatal("got no access_log in floodgate.conf")
	}
	for _, page := range []string{"README.md", "systemd/floodgate-ingest.env"} {
		if !regexp.MustCompile(`(?i)file[ =]` + regexp.QuoteMeta(log[1]) + `\b`).MatchString(readFile(t, page)) {
			t.Errorf("%s: got another file than %s, which floodgate.conf makes nginx write", page, log[1])
		}
	}
	walk := readFile(t, "nginx/README.md")
	for _, command := range []string{"--file " + log[1] + " --mapping deploy/nginx/mapping.yaml", "--callers key=X-Api-Key"} {
		if !strings.Contains(walk, command) || !strings.Contains(readFile(t, "nginx/mapping.yaml"), command) {
			t.Errorf("got no %q in nginx/README.md and nginx/mapping.yaml, want it in both", command)
		}
	}
}

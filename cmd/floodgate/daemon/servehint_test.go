package daemon

import (
	"strings"
	"testing"
)

// TestHintsNameAUnixSocketAsTheProxyDoes. A host may have some of the proxies, or none.
func TestHintsNameAUnixSocketAsTheProxyDoes(t *testing.T) {
	t.Setenv("PATH", "")
	for address, want := range map[string]map[string]string{
		"127.0.0.1:9091": {
			"nginx": "http://127.0.0.1:9091/auth_request;", "Caddy": "forward_auth 127.0.0.1:9091 {", "Traefik": `"http://127.0.0.1:9091/auth"`,
			"Envoy": "at 127.0.0.1:9091 and",
		},
		"unix:/run/f.sock": {"nginx": "http://unix:/run/f.sock:/auth_request;", "Caddy": "forward_auth unix//run/f.sock {"},
	} {
		got, found := hints(address), 0
		for _, h := range proxies() {
			if strings.Contains(got, "To let "+h.name+" ask") {
				found++
				if want[h.name] == "" || !strings.Contains(got, want[h.name]) {
					t.Errorf("%s: got\n%s\nwant %q for %s", address, got, want[h.name], h.name)
				}
			}
		}
		if found == 0 && address != "unix:/run/f.sock" {
			t.Errorf("%s: got %q, want a hint", address, got)
		}
	}
}

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHintForNginx is one line where the package's file says the same, and else all that nginx needs.
func TestHintForNginx(t *testing.T) {
	packaged := filepath.Join(t.TempDir(), "nginx.conf")
	if got := nginxLines(defaultListen, packaged); !strings.HasPrefix(got, "    auth_request /_floodgate;\n") || strings.Contains(got, "include") {
		t.Errorf("without a package: got\n%s\nwant all lines, without the file's comment", got)
	}
	if err := os.WriteFile(packaged, []byte(nginxConf), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := nginxLines(defaultListen, packaged), "    include "+packaged+";\n"; got != want {
		t.Errorf("with a package: got\n%s\nwant %s", got, want)
	}
	for address, want := range map[string]string{
		"127.0.0.1:9999":        "proxy_pass http://127.0.0.1:9999/auth_request;",
		"unix:/run/serve.sock:": "proxy_pass http://unix:/run/serve.sock:/auth_request;",
	} {
		if got := nginxLines(address, packaged); !strings.Contains(got, want) || strings.Contains(got, "include") {
			t.Errorf("%s, with a package for another address: got\n%s\nwant all lines, with %s", address, got, want)
		}
	}
	if err := os.WriteFile(packaged, []byte("# of another version\n"+nginxConf), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := nginxLines(defaultListen, packaged); strings.Contains(got, "include") {
		t.Errorf("with the package of another version: got\n%s\nwant all lines", got)
	}
}

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

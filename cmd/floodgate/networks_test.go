package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas/asn/asntest"
)

// TestServeClosesNetworks: a crawler sends one request from each address of its networks. Rules for addresses see nothing, and those for
// networks and systems refuse all of it. A file of systems that changes counts from then on.
func TestServeClosesNetworks(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	h.WriteRules(hammered + "  - {name: per-net, callers: net, limit: 50, window: 1h, overrides: {198.51.100.0/24: unlimited}}\n  - {name: per-system, callers: asn, limit: 80, window: 1h}\n")
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	systems := func(of map[string]uint32) {
		t.Helper()
		processtest.WriteFile(t, file+".new", string(asntest.Database(of)))
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	systems(map[string]uint32{"198.51.100.0/24": 64500})
	h.Start("--asn-file", file)
	crawl := func(network string, n int) {
		for i := range n {
			h.Requests(fmt.Sprint(network, i+1), 1)
		}
	}
	crawl("203.0.113.", 49)
	crawl("192.0.2.", 50)
	h.AwaitAnswer("192.0.2.200", http.StatusForbidden)
	h.Passes("203.0.113.200", "198.51.100.200")
	crawl("198.51.100.", 80)
	h.AwaitAnswer("198.51.100.200", http.StatusForbidden) // as AS64500
	h.Passes("203.0.113.200")

	person := func(command string, args ...string) string {
		t.Helper()
		out, err := runCommand(append([]string{command, "--api", h.API, "--token-file", filepath.Join(h.Data, "api-token")}, args...)...)
		if err != nil {
			t.Errorf("%s: got %v", command, err)
		}
		return out
	}
	if out := person("explain", "ip:192.0.2.7"); !strings.Contains(out, "its network: net:192.0.2.0/24 is closed") || strings.Contains(out, "asn:") {
		t.Errorf("explain: got\n%s\nwant that its network is closed, and nothing of a system", out)
	}
	if out := person("explain", "ip:198.51.100.7"); !strings.Contains(out, "its network: asn:AS64500 is closed") {
		t.Errorf("explain: got\n%s\nwant that its system is closed", out)
	}
	if out := person("close", "net:203.0.113.0/24", "--for", "1h", "--reason", "test"); !strings.Contains(out, "callers of kind ip in it: rule per-address (1h sliding) counts 49\n") {
		t.Errorf("close: got\n%s\nwant the number of addresses", out)
	}
	h.AwaitAnswer("203.0.113.200", http.StatusForbidden)
	if out := person("top", "--once", "--kind", "net"); !strings.Contains(out, "net:192.0.2.0/24") || strings.Contains(out, "ip:") {
		t.Errorf("top: got\n%s\nwant networks", out)
	}
	if _, err := runCommand("close", "net:203.0.113.7/24", "--for", "1h", "--reason", "test", "--api", h.API, "--token-file", filepath.Join(h.Data, "api-token")); err == nil ||
		!strings.Contains(err.Error(), `got "203.0.113.7/24", want 203.0.113.0/24`) {
		t.Errorf("close: got %v, want the network in the right spelling", err)
	}

	h.Passes("100.64.0.1")
	systems(map[string]uint32{"100.64.0.0/10": 64500})
	h.AwaitAnswer("100.64.0.1", http.StatusForbidden) // which is closed
	h.AwaitAnswer("198.51.100.200", http.StatusOK)
}

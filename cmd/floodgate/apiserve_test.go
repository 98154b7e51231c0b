package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// TestAnUnsafeAPIDoesNotStart: exit 2, before anything connects.
func TestAnUnsafeAPIDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	path := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	rules := path("rules", "version: 1\nrules:\n  - {name: r, callers: ip, limit: 1, window: 1s}\n")
	_, sum := api.NewToken()
	tokens := path("tokens", "anna read "+sum+"\n")
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"all addresses":        {[]string{"--api-listen", "0.0.0.0:9096"}, "want TLS and tokens"},
		"tokens without TLS":   {[]string{"--api-listen", ":9096", "--api-tokens", tokens}, "want TLS and tokens"},
		"broken tokens":        {[]string{"--api-tokens", path("broken", "anna root x")}, "line 1: got role"},
		"half a certificate":   {[]string{"--api-cert", tokens}, "want both or none"},
		"short key":            {[]string{"--api-cluster-key-file", path("short", "secret\n")}, "got 6 bytes, want 32 or more"},
		"no port":              {[]string{"--api-listen", "127.0.0.1"}, "want host:port"},
		"a place of all":       {[]string{"--api-advertise", "0.0.0.0:9096"}, "at which others reach"},
		"a socket of a system": {[]string{"--api-listen", "unix:/tmp/x"}, "want"},
	} {
		var out strings.Builder
		args := append([]string{"analyze", "--brokers", "127.0.0.1:1", "--rules", rules, "--data", filepath.Join(dir, "data"), "--listen", "", "--api-listen", "127.0.0.1:0"}, c.flags...)
		err := realMain(t.Context(), args, inside(&out, nil))
		if !command.IsUsage(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a usage error with %q", name, err, c.want)
		}
	}
	var out strings.Builder
	if err := realMain(t.Context(), []string{"demo", "--api-listen", "0.0.0.0:9096"}, inside(&out, nil)); !command.IsUsage(err) || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("demo for all: got %v, want a usage error", err)
	}
}

// TestTheDemosAPISaysWhoMay, answers while it runs, and lets its own machine decide.
func TestTheDemosAPISaysWhoMay(t *testing.T) {
	p := start(t, "demo", "--api-listen", "127.0.0.1:0", "--duration", "8s")
	address := p.WaitFor(`the API is at (\S+): this machine may do everything there, without a token`, 30*time.Second)
	var status apiv1.Status
	for deadline := time.Now().Add(30 * time.Second); status.Role != "admin" || !status.Control.Ready; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want a status for an admin", status)
		}
		resp, err := http.Get("http://" + address + "/v1/status")
		if err != nil {
			continue
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK {
			if err := json.Unmarshal(b, &status); err != nil {
				t.Fatal(err)
			}
		}
	}
	body := `{"caller":{"kind":"key","id":"quiet-01"},"until":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `","reason":"trial"}`
	resp, err := http.Post("http://"+address+"/v1/close", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		b, _ := io.ReadAll(resp.Body)
		t.Errorf("close: got %d %s, want it in the log", resp.StatusCode, b)
	}
}

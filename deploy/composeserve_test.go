package deploy

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// testComposeServe starts what compose-serve.yaml starts beside nginx, and writes what nginx logs of a noisy caller until that is refused.
func testComposeServe(t *testing.T, floodgate *image) {
	s := services(t, "compose-serve.yaml")["floodgate"]
	floodgate.mount(t, "rules/rules.yaml", s.Environment["FLOODGATE_RULES"])
	log := filepath.Join(floodgate.root, s.Environment["FLOODGATE_FILE"])
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	asked, metrics := testenv.FreeAddress(t), testenv.FreeAddress(t)
	s.Environment = maps.Clone(s.Environment)
	s.Environment["FLOODGATE_LISTEN"], s.Environment["FLOODGATE_METRICS_LISTEN"], s.Environment["FLOODGATE_API_LISTEN"] = asked, metrics, testenv.FreeAddress(t)
	stop := start(t, floodgate, s, strings.NewReplacer())

	check := s.Healthcheck.Test
	if len(check) != 4 || check[0] != "CMD" || check[1] != floodgate.entry || check[3] != "http://127.0.0.1:9090/readyz" {
		t.Fatalf("got health check %q, want CMD %s probe and the address of --metrics-listen", check, floodgate.entry)
	}
	eventually(t, "health check", func() error {
		out, err := floodgate.command(t.Context(), nil, check[2], strings.Replace(check[3], "127.0.0.1:9090", metrics, 1)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	line := nginxLine(t, "floodgate.conf", map[string]string{
		"msec": fmt.Sprint(time.Now().Unix()) + ".000", "remote_addr": "203.0.113.9", "request_method": "GET", "uri": "/", "status": "200",
	})
	eventually(t, "a noisy caller", func() error {
		write(strings.Repeat(line+"\n", 100))
		if got := askServe(t, asked, "203.0.113.9"); got != http.StatusForbidden {
			return fmt.Errorf("got %d, want 403", got)
		}
		return nil
	})
	if got := askServe(t, asked, "203.0.113.10"); got >= 300 {
		t.Errorf("got %d for a caller without a request, want that it passes", got)
	}
	stop()
}

// askServe returns the status that nginx gets for a client.
func askServe(t *testing.T, address, client string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/auth_request", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Forwarded-For", client)
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

package processtest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Sidecar is a sidecar and its analyzer, which closes addresses at the tenth request, and a server behind a proxy.
type Sidecar struct {
	*Deployment

	Program *Program
	URL     string // of the sidecar
	Envoy   string // its gRPC address
	Feed    string // the path of its feed's socket
	Backend *httptest.Server
}

// NewSidecar starts them, the sidecar with more arguments.
func NewSidecar(t *testing.T, start Starter, args ...string) *Sidecar {
	t.Helper()
	b := &Sidecar{Deployment: NewDeployment(t, start)}
	b.WriteRules("version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 10, window: 1h}\n")
	b.Start()
	b.Feed = filepath.Join(t.TempDir(), "feed.sock")
	b.Program = start(t, append([]string{
		"sidecar", "--brokers", b.Broker, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--feed-listen", "unix:" + b.Feed,
	}, args...)...)
	b.URL = "http://" + b.Program.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	b.Envoy = b.Program.WaitFor(`msg="listening for Envoy" address=(\S+)`, 10*time.Second)
	AwaitReady(t, b.URL, 200, "")
	b.Backend = NewBackend(t)
	return b
}

// NewBackend returns a server for proxies to stand before.
func NewBackend(t testing.TB) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("served")) }))
	t.Cleanup(s.Close)
	return s
}

// GetFrom asks a URL from a loopback address of one's own, so that a proxy sees several clients, and claims another.
func GetFrom(t testing.TB, addr, claim, url string) (status int, header http.Header) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}).DialContext,
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", claim)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// FloodsThrough sends requests through a proxy from one address until it is refused, and sees that another is not.
func (b *Sidecar) FloodsThrough(url, noisyClaim, quietClaim string) {
	b.T.Helper()
	admitted := 0
	Eventually(b.T, 20*time.Second, "the noisy client refused", func() bool {
		status, header := GetFrom(b.T, "127.0.0.2", noisyClaim, url)
		switch status {
		case http.StatusOK:
			admitted++
			return false
		case http.StatusTooManyRequests:
			if header.Get("Retry-After") == "" || !strings.Contains(header.Get("RateLimit"), "per-ip") ||
				!strings.Contains(header.Get("RateLimit-Policy"), "per-ip") {
				b.T.Errorf("got %v, want Retry-After, RateLimit and RateLimit-Policy", header)
			}
			return true
		}
		b.T.Fatalf("got %d, want 200 or 429", status)
		return false
	})
	if admitted < 10 {
		b.T.Errorf("got %d admitted, want 10 at least", admitted)
	}
	for range 9 {
		if status, _ := GetFrom(b.T, "127.0.0.3", quietClaim, url); status != http.StatusOK {
			b.T.Fatalf("the quiet client: got %d, want 200", status)
		}
	}
}

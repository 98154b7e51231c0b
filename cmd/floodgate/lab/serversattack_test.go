//go:build lab

package lab

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// attack is a request of a closed client that has read the configurations: they let pass where the sidecar fails, so it tries
// to make the sidecar fail.
type attack struct{ name, request string }

func attacks() []attack {
	header := func(name, fields string) attack {
		return attack{name, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + fields + "\r\n"}
	}
	cookie := func(bytes int) string { return "Cookie: " + strings.Repeat("c", bytes) + "\r\n" }
	return []attack{
		header("nothing special", ""),
		header("a cookie of 100 kB", cookie(100_000)),
		header("a cookie of 900 kB", cookie(900_000)),
		header("a key of 900 kB", "X-Api-Key: "+strings.Repeat("k", 900_000)+"\r\n"),
		header("fields of 900 kB", strings.Repeat("X-A: "+strings.Repeat("a", 9_000)+"\r\n", 100)),
		header("a control character", "X-A: \x01\r\n"),
		header("a control character in the key", "X-Api-Key: \x7f\r\n"),
		header("text that is not UTF-8", "X-A: \xff\xfe\r\n"),
		header("a key that is not UTF-8", "X-Api-Key: \xff\xfe\r\n"),
		header("a name that is none", "X A: a\r\n"),
		header("a name with an underscore", "X_A: a\r\n"),
		header("an expectation that nobody knows", "Expect: a\r\n"),
		header("a coding that nobody knows", "Transfer-Encoding: a\r\n"),
		header("two lengths", "Content-Length: 1\r\nContent-Length: 2\r\n"),
		header("another protocol", "Upgrade: websocket\r\n"),
		header("a request not to pass the address on", "Connection: X-Forwarded-For\r\n"),
		header("the address of another", "X-Forwarded-For: 203.0.113.5\r\nX-Real-Ip: 203.0.113.5\r\nForwarded: for=203.0.113.5\r\n"),
		header("two keys", "X-Api-Key: a\r\nX-Api-Key: b\r\n"),
		header("the question's own words", "X-Forwarded-Method: PUT\r\nX-Forwarded-Uri: /metrics\r\nX-Original-Url: /metrics\r\n"),
		{"a path of 30 kB", "GET /" + strings.Repeat("p", 30_000) + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"},
		{"a path that is not UTF-8", "GET /\xff%ff%00 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"},
		{"the path of the question", "GET /_floodgate HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"},
		{"the host of the question", "GET /auth HTTP/1.1\r\nHost: 127.0.0.1:9099\r\nConnection: close\r\n\r\n"},
		{"a host that is none", "GET / HTTP/1.1\r\nHost: \xff/\r\nConnection: close\r\n\r\n"},
		{"a method that nobody knows", "A_B GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"},
		{"a body that does not come", "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\n\r\n"},
		{"a body that waits", "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"},
		{"a chunk that is none", "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"},
		{"an old HTTP", "GET / HTTP/1.0\r\n\r\n"},
	}
}

// TestAClosedClientDoesNotPassByMakingTheSidecarFail sends each attack through each server. The server waits longer for the
// sidecar than as shipped: on a busy machine a request of 900 kB takes more than 50 ms by itself, and then every client passes.
func TestAClosedClientDoesNotPassByMakingTheSidecarFail(t *testing.T) {
	for _, s := range shippedServers() {
		t.Run(s.name, func(t *testing.T) {
			testenv.Program(t, s.program)
			b := processtest.NewSidecar(t, start, "--record", "--trusted", "127.0.0.1/32", "--callers", "key=X-Api-Key") // clients are 127.0.0.2 and 127.0.0.3
			echo := newEcho(t)
			b.Backend = echo.Server
			q := asks(b)
			q.patience = "10s"
			url := s.begin(t, q)
			b.FloodsThrough(url, "203.0.113.1", "203.0.113.1")
			served := echo.served.Load()
			for _, a := range attacks() {
				status := sendRaw(t, url, "127.0.0.2", a.request)
				if n := echo.served.Load(); n != served || status/100 == 2 {
					t.Errorf("%s: got status %d, and %d requests at the backend; want it refused", a.name, status, n-served)
				}
				served = echo.served.Load()
				t.Logf("%s: %d", a.name, status)
			}
		})
	}
}

// TestALongCookiePasses: what the server accepts, the sidecar must too.
func TestALongCookiePasses(t *testing.T) {
	for _, s := range shippedServers() {
		if s.inside {
			continue // it asks no sidecar
		}
		t.Run(s.name, func(t *testing.T) {
			testenv.Program(t, s.program)
			echo := newEcho(t)
			sidecar := start(t, "sidecar", "--brokers", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
			q := question{
				sidecar: sidecar.WaitFor(`msg=listening address=(\S+)`, 10*time.Second),
				envoy:   sidecar.WaitFor(`msg="listening for Envoy" address=(\S+)`, 10*time.Second), backend: echo.Listener.Addr().String(),
			}
			url := s.begin(t, q)
			asked := func() float64 {
				text, _ := processtest.Get(t.Context(), "http://"+q.sidecar+"/metrics")
				return processtest.MetricSum(text, "floodgate_sidecar_asked_total")
			}
			before, served := asked(), echo.served.Load()
			request := "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: " + strings.Repeat("c", 100_000) + "\r\n\r\n"
			if status := sendRaw(t, url, "127.0.0.2", request); status != http.StatusOK || echo.served.Load() != served+1 || asked() != before+1 {
				t.Errorf("got status %d, %d requests at the backend and %v questions, want 200, 1 and 1", status, echo.served.Load()-served, asked()-before)
			}
		})
	}
}

// TestTheSidecarTakesTheHeaderThatProxiesTake asks it directly, with all that a proxy written in Go takes from a client.
func TestTheSidecarTakesTheHeaderThatProxiesTake(t *testing.T) {
	p := start(t, "sidecar", "--brokers", "127.0.0.1:1", "--listen", "127.0.0.1:0")
	address := p.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	for _, path := range []string{"/auth", "/auth_request"} {
		for bytes, want := range map[int]int{100_000: http.StatusOK, 1 << 20: http.StatusOK, 4 << 20: http.StatusRequestHeaderFieldsTooLarge} {
			request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: %s\r\n\r\n", path, strings.Repeat("c", bytes))
			if got := sendRaw(t, "http://"+address+"/", "127.0.0.1", request); got != want {
				t.Errorf("%s with %d bytes: got %d, want %d", path, bytes, got, want)
			}
		}
	}
}

// sendRaw sends a request as it is written from an address of loopback, and returns the status of the answer; 0 is none that
// could be read within three seconds.
func sendRaw(t *testing.T, url, addr, request string) int {
	t.Helper()
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte(request)) // the server may answer before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

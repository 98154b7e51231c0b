package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var loopback = Allowed{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// receiver serves one path on loopback.
func receiver(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// send sends one message to a URL, which may be on loopback.
func send(t *testing.T, url string, timeout time.Duration) Answer {
	t.Helper()
	c := New(Config{URL: url, Allowed: loopback, Timeout: timeout})
	defer c.Close()
	return c.Send(t.Context(), Message{ID: "ev_1", Body: []byte("{}")}, time.Now())
}

func TestAReceiverVerifiesWhatIsSent(t *testing.T) {
	t.Parallel()
	s := NewSecret()
	verified := make(chan error, 1)
	server := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		wh, err := standardwebhooks.NewWebhook(s)
		if err == nil {
			err = wh.Verify(body, r.Header)
		}
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Webhook-Id") != "ev_1" {
			err = fmt.Errorf("got %s and %v", r.Method, r.Header)
		}
		verified <- err
		w.WriteHeader(http.StatusNoContent)
	})
	secret, err := ParseSecret(s)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{URL: server.URL, Secrets: []Secret{secret}, Allowed: loopback})
	defer c.Close()
	a := c.Send(t.Context(), Message{ID: "ev_1", Body: []byte(`{"type":"closed"}`)}, time.Now())
	if err := <-verified; err != nil || a.Err != nil || a.Status != http.StatusNoContent {
		t.Errorf("got %v and %+v, want it verified and answered", err, a)
	}
}

func TestStatusesSayWhatCameOfIt(t *testing.T) {
	t.Parallel()
	for status, good := range map[int]bool{200: true, 202: true, 299: true, 300: false, 400: false, 404: false, 410: false, 429: false, 500: false, 503: false} {
		server := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprint(w, "why")
		})
		a := send(t, server.URL, 0)
		if a.Status != status || (a.Err == nil) != good || a.Gone() != (status == 410) || a.RetryAfter != 7*time.Second || string(a.Body) != "why" {
			t.Errorf("%d: got %+v, want delivered %t", status, a, good)
		}
	}
	for header, want := range map[string]time.Duration{"": 0, "0": 0, "-1": 0, "3600": time.Hour, "86400": time.Hour, "99999999999999": 0, "Wed, 21 Oct 2099 07:28:00 GMT": 0} {
		if got := retryAfter(header); got != want {
			t.Errorf("Retry-After %q: got %v, want %v", header, got, want)
		}
	}
}

// TestAnAnswerThatSwitchesProtocolsEnds: behind such an answer comes the connection itself, which would never end.
func TestAnAnswerThatSwitchesProtocolsEnds(t *testing.T) {
	t.Parallel()
	server := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "silence")
		w.WriteHeader(http.StatusSwitchingProtocols)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the client has hung up
	})
	answers := make(chan Answer, 1)
	go func() { answers <- send(t, server.URL, time.Minute) }()
	select {
	case a := <-answers:
		if a.Status != http.StatusSwitchingProtocols || a.Err == nil {
			t.Errorf("got %+v, want status 101 and a failure", a)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("got no answer, want a failure: it reads the connection")
	}
}

// TestARedirectIsNotFollowed, least of all to a metadata service or to where a client would not be let.
func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	inside := receiver(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	for _, target := range []string{inside.URL, "http://169.254.169.254/latest/meta-data/", "/again"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			server := receiver(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/again" {
					reached.Add(1)
				}
				http.Redirect(w, r, target, status)
			})
			if a := send(t, server.URL, 0); a.Status != status || a.Err == nil || !strings.Contains(a.Err.Error(), "not followed") {
				t.Errorf("%d to %s: got %+v, want a failure", status, target, a)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("got %d requests where redirects lead, want none", n)
	}
}

func TestAReceiverThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	server := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices that the client is gone
		<-r.Context().Done()
		close(ended)
	})
	if a := send(t, server.URL, 100*time.Millisecond); a.Err == nil || a.Status != 0 {
		t.Errorf("got %+v, want a failure", a)
	}
	<-ended
}

// TestAnAnswerThatDripsIsGivenUp: the deadline is for the whole attempt, and not for each read.
func TestAnAnswerThatDripsIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for _, b := range []byte("HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 1<<20)) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if a := send(t, "http://"+l.Addr().String(), 300*time.Millisecond); a.Err == nil {
		t.Errorf("got %+v, want a failure", a)
	}
}

// TestAnAnswerOf1GBIsReadToABound: it is delivered, the connection is ended, and next to nothing of it was sent.
func TestAnAnswerOf1GBIsReadToABound(t *testing.T) {
	t.Parallel()
	const all = 1 << 30
	sent := make(chan int, 1)
	server := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(all))
		chunk, n := bytes.Repeat([]byte("x"), 64<<10), 0
		for n < all {
			m, err := w.Write(chunk)
			n += m
			if err != nil {
				break
			}
		}
		sent <- n
	})
	a := send(t, server.URL, 0)
	if a.Err != nil || a.Status != 200 || len(a.Body) != keptAnswer {
		t.Errorf("got %d, %v and %d bytes, want it delivered and a KiB kept", a.Status, a.Err, len(a.Body))
	}
	if n := <-sent; n > all/10 {
		t.Errorf("got %d bytes sent, want next to nothing of %d", n, all)
	}
}

func TestAHeaderWithoutEndIsAFailure(t *testing.T) {
	t.Parallel()
	server := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1000 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
		}
	})
	if a := send(t, server.URL, 0); a.Err == nil {
		t.Errorf("got %+v, want a failure", a)
	}
}

// TestNothingIsSentToAnAddressThatIsNotAllowed, whether it stands in the URL or a name leads to it.
func TestNothingIsSentToAnAddressThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	server := receiver(t, func(http.ResponseWriter, *http.Request) { t.Error("got a request, want none") })
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::1]", "169.254.169.254"} {
		c := New(Config{URL: "http://" + host + ":" + port + "/secret-path"})
		a := c.Send(t.Context(), Message{ID: "ev_1"}, time.Now())
		if !errors.Is(a.Err, ErrAddress) {
			t.Errorf("%s: got %v, want ErrAddress", host, a.Err)
		}
		if a.Err != nil && strings.Contains(a.Err.Error(), "secret-path") {
			t.Errorf("got %v, want no URL in it", a.Err)
		}
	}
}

// TestNoProxyOfTheEnvironmentIsAsked: it would dial for us, unchecked.
func TestNoProxyOfTheEnvironmentIsAsked(t *testing.T) {
	proxy := receiver(t, func(http.ResponseWriter, *http.Request) { t.Error("got a request to the proxy, want none") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	if a := send(t, "http://169.254.169.254/", time.Second); !errors.Is(a.Err, ErrAddress) {
		t.Errorf("got %+v, want ErrAddress", a)
	}
}

func TestACertificateOfNobodyIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	if a := send(t, server.URL, 0); a.Err == nil {
		t.Error("got an unknown certificate taken")
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	c := New(Config{URL: server.URL, Allowed: loopback, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	defer c.Close()
	if a := c.Send(t.Context(), Message{ID: "ev_1"}, time.Now()); a.Err != nil {
		t.Errorf("got %v, want a known one taken", a.Err)
	}
}

func TestAContextThatEndsIsAnAnswer(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	server := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		stop()
		<-r.Context().Done()
	})
	c := New(Config{URL: server.URL, Allowed: loopback, Timeout: time.Minute})
	defer c.Close()
	if a := c.Send(ctx, Message{ID: "ev_1"}, time.Now()); !errors.Is(a.Err, context.Canceled) {
		t.Errorf("got %v, want that of the context", a.Err)
	}
}

func TestAURLThatCannotBeIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://a b/secret", "://secret", "gopher://secret/", "http://secret.invalid:port/"} {
		if a := send(t, url, time.Second); a.Err == nil || strings.Contains(a.Err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error without it", url, a.Err)
		}
	}
}

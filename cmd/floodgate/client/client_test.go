package client

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

const token = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhatIsNotSafeIsRefused before anything is sent: a token without TLS beyond loopback, an address that is none, files that
// are not what they should be. No error repeats what may be a secret.
func TestWhatIsNotSafeIsRefused(t *testing.T) {
	good := file(t, token+"\n")
	for name, test := range map[string]struct {
		config Config
		want   string // "" is no error
	}{
		"loopback":              {Config{URL: "http://127.0.0.1:9096", TokenFile: good}, ""},
		"IPv6 loopback":         {Config{URL: "http://[::1]:9096/", TokenFile: good}, ""},
		"mapped loopback":       {Config{URL: "http://[::ffff:127.0.0.1]:9096", TokenFile: good}, ""},
		"localhost":             {Config{URL: "http://LOCALHOST:9096", TokenFile: good}, ""},
		"TLS":                   {Config{URL: "https://analyzer.example:9096", TokenFile: good}, ""},
		"no token":              {Config{URL: "http://analyzer.example:9096"}, ""},
		"token in the clear":    {Config{URL: "http://analyzer.example:9096", TokenFile: good}, "want https"},
		"looks like loopback":   {Config{URL: "http://127.0.0.1.example:9096", TokenFile: good}, "want https"},
		"localhost.example":     {Config{URL: "http://localhost.example", TokenFile: good}, "want https"},
		"password in the URL":   {Config{URL: "http://user:hunter2@127.0.0.1"}, "want an address such as 127.0.0.1:9096"},
		"path":                  {Config{URL: "http://127.0.0.1/v1"}, "want an address such as 127.0.0.1:9096"},
		"query":                 {Config{URL: "http://127.0.0.1?x=1"}, "want an address such as 127.0.0.1:9096"},
		"scheme":                {Config{URL: "unix:///run/x"}, "want an address such as 127.0.0.1:9096"},
		"no scheme":             {Config{URL: "127.0.0.1:9096", TokenFile: good}, ""},
		"another machine":       {Config{URL: "analyzer.example:9096", TokenFile: good}, ""}, // by https
		"no scheme and no port": {Config{URL: "127.0.0.1"}, "want an address such as 127.0.0.1:9096"},
		"no token file":         {Config{URL: "http://127.0.0.1", TokenFile: good + ".not"}, "no such file"},
		"a password for token":  {Config{URL: "http://127.0.0.1", TokenFile: file(t, "hunter2")}, "got 7 characters, want the 43"},
		"the line with the sum": {Config{URL: "http://127.0.0.1", TokenFile: file(t, "a read "+strings.Repeat("0", 64))}, "got 71 characters"},
		"no CA":                 {Config{URL: "https://a", CA: good + ".not"}, "no such file"},
		"a CA that is none":     {Config{URL: "https://a", CA: good}, "want PEM"},
		"half a certificate":    {Config{URL: "https://a", Cert: good}, ErrConfig.Error()},
	} {
		_, err := New(test.config)
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		if err != nil && (strings.Contains(err.Error(), token) || strings.HasPrefix(name, "a password") && strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got %v, want no secret in it", name, err)
		}
	}
}

// serve starts a server and returns a client of it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL, TokenFile: file(t, token)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// TestARequest carries the token, ids as they are, and the id of a record.
func TestARequest(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a test's own
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode([]string{
			r.Method, r.URL.Path, r.URL.Query().Get("caller"), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key"), string(body),
		})
	})
	for _, id := range []string{"a/../b", "%2f", "a\nb\x00\xff", "?&=#", "a+b c"} {
		var got []string
		if err := c.Get(t.Context(), "/v1/caller", url.Values{"caller": {"key:" + id}}, &got); err != nil {
			t.Fatal(err)
		}
		if want := "key:" + strings.ToValidUTF8(id, "\ufffd"); got[1] != "/v1/caller" || got[2] != want || got[3] != "Bearer "+token || got[4] != "" || got[5] != "" {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
	var got []string
	id := schemas.ControlID{1, 2}
	status, err := c.Post(t.Context(), "/v1/open", map[string]int{"a": 1}, &id, &got)
	if err != nil || status != http.StatusAccepted || got[4] != "application/json" || got[5] != id.String() || got[6] != `{"a":1}` {
		t.Errorf("got %v, %d and %q", err, status, got)
	}
}

// TestBadAnswers are errors that say what came: problems with their parts, and everything that is no API.
func TestBadAnswers(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, test := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"a problem": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"title":"Forbidden","status":403,"detail":"no"}`)
		}, "Forbidden: no"},
		"a page":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, "got status 502 Bad Gateway without a reason"},
		"no JSON":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "cannot be read"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }, "got status 302 Found"},
		"ends early": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{}")
		}, "unexpected EOF"},
		"without end":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) }, "more than 67108864 bytes"},
		"hangs up":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"empty answer": {func(http.ResponseWriter, *http.Request) {}, "unexpected end of JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, test.serve)
			var out map[string]any
			if err := c.Get(t.Context(), "/v1/status", nil, &out); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), token) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("got %d requests at another server, want no redirect followed", n)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestExplain says problems in words.
func TestExplain(t *testing.T) {
	for want, p := range map[string]apiv1.Problem{
		"no such route":                           {Title: "Not Found", Detail: "no such route"},
		"Not Found":                               {Title: "Not Found"},
		`/until: got "x", want a time`:            {Title: "T", Detail: "D", Pointer: "/until", Got: "x", Want: "a time"},
		`you may not: got "read", want "operate"`: {Title: "T", Detail: "you may not", Got: "read", Want: `"operate"`},
		`caller: got "\x1b", want an id`:          {Title: "T", Pointer: "caller", Got: "\x1b", Want: "an id"},
	} {
		if got := Explain(&p); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestTLS trusts the authority that is named, and no other.
func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	defer s.Close()
	ca := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	for name, want := range map[string]string{ca: "", "": "certificate"} {
		c, err := New(Config{URL: s.URL, CA: name, TokenFile: file(t, token)})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Get(t.Context(), "/", nil, &struct{}{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("CA %q: got %v, want %q", name, err, want)
		}
		c.http.CloseIdleConnections()
	}
}

// TestAStreamGoesOn behind its last event after each break, passes over what it does not know, and ends when the token does.
func TestAStreamGoesOn(t *testing.T) {
	n := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		last := r.Header.Get("Last-Event-ID")
		n++
		switch n {
		case 1:
			_, _ = io.WriteString(w, ": hello\r\n\nevent: closed\nid: 7\nretry: 5\ndata: {\"kind\":\"closed\",\ndata: \"number\":7}\n\nevent: lonely\n\ndata: {\"kind\":\"half")
		case 2:
			http.Error(w, "away", http.StatusBadGateway)
		case 3:
			fmt.Fprintf(w, "id: 8\ndata: {\"kind\":\"opened behind %s\"}\n\n", last)
		default:
			_, _ = io.WriteString(w, "event: end\ndata: {\"why\":\"revoked\"}\n\n")
		}
	})
	var got, why []string
	err := c.Stream(t.Context(), nil, func(e *apiv1.DecisionEvent) error {
		got = append(got, fmt.Sprint(e.Kind, e.Number))
		return nil
	}, func(err error) { why = append(why, err.Error()) })
	if want := "closed7 opened behind 70"; !errors.Is(err, ErrRevoked) || strings.Join(got, " ") != want || len(why) != 3 || !strings.Contains(why[1], "502") {
		t.Errorf("got %v, %q and breaks %q, want the token's end, %s and 3 breaks", err, got, why, want)
	}
}

// TestAStreamEnds with the person, with what is refused, and with an error of its reader; events that are no JSON are a break.
func TestAStreamEnds(t *testing.T) {
	refused := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"title":"Unauthorized","status":401}`)
	})
	var p *apiv1.Problem
	if err := refused.Stream(t.Context(), nil, nil, nil); !errors.As(err, &p) || p.Status != http.StatusUnauthorized {
		t.Errorf("got %v, want a problem", err)
	}
	one := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "data: {}\n\n") })
	full := errors.New("standard output is closed")
	if err := one.Stream(t.Context(), nil, func(*apiv1.DecisionEvent) error { return full }, nil); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	ctx, cancel := context.WithCancel(t.Context())
	bad := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "data: {\n\n") })
	if err := bad.Stream(ctx, nil, nil, func(err error) {
		if !errors.Is(err, ErrAnswer) {
			t.Errorf("got %v, want %v", err, ErrAnswer)
		}
		cancel()
	}); err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

// TestASilentStreamIsBroken: a connection that is dead says nothing, not even that.
func TestASilentStreamIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &Client{base: &url.URL{Scheme: "http", Host: "dead"}, stream: &http.Client{Transport: silent{}}}
		began := time.Now()
		err := c.Stream(ctx, nil, nil, func(err error) {
			if took := time.Since(began); !errors.Is(err, errSilent) || took != silence {
				t.Errorf("got %v after %v, want %v after %v", err, took, errSilent, silence)
			}
			cancel()
		})
		if err != nil {
			t.Errorf("got %v, want a clean end", err)
		}
	})
}

// silent answers, and then says nothing.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = write.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Body: read}, nil
}

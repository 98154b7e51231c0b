package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// Bounds.
const (
	maxAnswer  = 64 << 20 // bytes
	maxHeader  = 64 << 10 // bytes of an answer's header
	tokenBytes = 32
	timeout    = 30 * time.Second // of one answer; a stream may last
)

// Errors. Test with errors.Is.
var (
	ErrConfig  = errors.New("bad address, token or certificate of the API")
	ErrAnswer  = errors.New("the API's answer cannot be read")
	ErrAddress = errors.New("cannot ask the API")
)

// Config says which analyzer to ask, and as whom.
type Config struct {
	URL       string // http or https, host and port; without a scheme, http on this machine and https on others
	TokenFile string // with the token on its only line; empty: HostToken, if the address is of this machine and the file can be read
	CA        string // PEM file of the authorities to trust; empty: the system's
	Cert, Key string // PEM files of this client's certificate, for servers that ask for one; empty: none
}

// HostToken is where floodgate serve writes a token, if its data is where the packages have it.
const HostToken = "/var/lib/floodgate-serve/api-token" //nolint:gosec // the path of a file

// Client asks one analyzer. Any goroutine may use it.
type Client struct {
	base   *url.URL
	token  string
	http   *http.Client
	stream *http.Client // without a time limit
}

// New checks the Config, and reads its files. The error is ErrConfig; it never contains the token.
func New(c Config) (*Client, error) {
	base, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, ResponseHeaderTimeout: timeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	if transport.TLSClientConfig, err = c.tls(); err != nil {
		return nil, err
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &Client{
		base: base, http: &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: stay},
		stream: &http.Client{Transport: transport, CheckRedirect: stay},
	}
	if c.TokenFile == "" && loopback(base.Hostname()) && readable(HostToken) {
		c.TokenFile = HostToken
	}
	if c.TokenFile != "" {
		if client.token, err = readToken(c.TokenFile); err != nil {
			return nil, err
		}
		if base.Scheme == "http" && !loopback(base.Hostname()) {
			return nil, fmt.Errorf("%w: got a token and %s, want https: the token would cross the network unencrypted", ErrConfig, base)
		}
	}
	return client, nil
}

func readable(path string) bool {
	f, err := os.Open(path)
	if err == nil {
		_ = f.Close() // it was only read
	}
	return err == nil
}

// parseURL takes host:port, too. Without a scheme it is http on this machine and https on others, as analyzers serve it.
func parseURL(text string) (*url.URL, error) {
	full := text
	if _, _, err := net.SplitHostPort(text); err == nil && !strings.Contains(text, "://") {
		full = "https://" + text
	}
	base, err := url.Parse(full)
	if err == nil && full != text && loopback(base.Hostname()) {
		base.Scheme = "http"
	}
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" || strings.Trim(base.Path, "/") != "" ||
		base.RawQuery != "" || base.User != nil || base.Fragment != "" {
		return nil, fmt.Errorf("%w: got %q, want an address such as 127.0.0.1:9096 or https://analyzer.example:9096", ErrConfig, text)
	}
	base.Path = ""
	return base, nil
}

func loopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// tls returns nil where nothing differs from the default.
func (c *Config) tls() (*tls.Config, error) {
	if c.CA == "" && c.Cert == "" && c.Key == "" {
		return nil, nil //nolint:nilnil // net/http has its own default
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: %s: got no certificate, want PEM", ErrConfig, c.CA)
		}
	}
	if c.Cert != "" || c.Key != "" {
		cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

// readToken reads a token. Errors say how long it was, and nothing of what was there.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrConfig, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrConfig, err)
	}
	token := strings.TrimSpace(string(text))
	if b, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(b) != tokenBytes {
		return "", fmt.Errorf("%w: %s: got %d characters, want the 43 of a token, as floodgate token prints it", ErrConfig, path, len(token))
	}
	return token, nil
}

// Get asks, and decodes the answer into out.
func (c *Client) Get(ctx context.Context, path string, query url.Values, out any) error {
	_, err := c.do(ctx, http.MethodGet, path, query, nil, "", out)
	return err
}

// Post sends body, and decodes the answer into out. It returns the status: 200, or 202 if owners have not applied the record yet. id
// becomes the id of the record, so that a body that is sent twice with one id takes effect once; nil sends no id.
func (c *Client) Post(ctx context.Context, path string, body any, id *schemas.ControlID, out any) (status int, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	key := ""
	if id != nil {
		key = id.String()
	}
	return c.do(ctx, http.MethodPost, path, nil, text, key, out)
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte, key string, out any) (int, error) {
	r, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return 0, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return 0, fmt.Errorf("%w at %s: %w", ErrAddress, c.base, reason(err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("got more than %d bytes", maxAnswer)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %s %s: %w", ErrAnswer, method, path, reason(err))
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return 0, problem(answer, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return 0, fmt.Errorf("%w: %s %s: %w", ErrAnswer, method, path, err)
	}
	return answer.StatusCode, nil
}

func (c *Client) request(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Request, error) {
	u := *c.base
	u.Path, u.RawQuery = path, query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// reason returns the cause of an error, without the method and the URL, which the caller adds itself.
func reason(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// problem returns the problem in an answer, or one that says what came instead.
func problem(answer *http.Response, text []byte) error {
	var p apiv1.Problem
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if kind == "application/problem+json" && json.Unmarshal(text, &p) == nil && p.Title != "" {
		return &p
	}
	return fmt.Errorf("%w: got status %s without a reason: is this the API of an analyzer?", ErrAnswer, answer.Status)
}

// Explain says a problem in words: what is wrong, where, what was got, and what is wanted.
func Explain(p *apiv1.Problem) string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.Pointer != "" && p.Want != "" {
		return fmt.Sprintf("%s: got %q, want %s", p.Pointer, p.Got, p.Want)
	}
	if p.Want != "" {
		text += fmt.Sprintf(": got %q, want %s", p.Got, p.Want)
	}
	return text
}

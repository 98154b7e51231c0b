package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Bounds of one attempt.
const (
	DefaultTimeout = 10 * time.Second
	maxAnswer      = 64 << 10 // bytes that are read of the body of an answer
	keptAnswer     = 1 << 10  // bytes of it that an Answer has
	maxHeader      = 16 << 10
	maxRetryAfter  = time.Hour
)

// idleTimeout is how long a connection without a request is kept, so that the close of a caller need not wait for a handshake.
const idleTimeout = 5 * time.Minute

// Config says where messages go. URL is needed.
type Config struct {
	URL         string        // http or https
	Secrets     []Secret      // each of them signs; empty: messages are not signed
	Allowed     Allowed       // beside public addresses
	Timeout     time.Duration // of an attempt; 0 is DefaultTimeout
	ContentType string        // of the bodies; "" is application/json
	TLS         *tls.Config   // nil: the certificate must be one that the system trusts
}

// Message is what is sent. Each attempt to send it has the same ID.
type Message struct {
	ID   string
	Body []byte
}

// Answer is what came of one attempt. The zero value is no answer and no error, which Send never returns.
type Answer struct {
	Status     int           // 0 if there was no answer
	RetryAfter time.Duration // that the receiver asks for, at most an hour; 0: it does not
	Body       []byte        // the first KiB
	Err        error         // nil if the message was delivered
}

// Gone reports whether the receiver wants no message any more: it has answered 410.
func (a Answer) Gone() bool { return a.Status == http.StatusGone }

// Client sends messages to one URL. New makes one. Any goroutine may use it.
type Client struct {
	config Config
	http   *http.Client
}

// New returns a client. It does no I/O.
func New(c Config) *Client {
	dialer := &net.Dialer{Control: c.Allowed.control}
	transport := &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig: c.TLS, MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTimeout,
	}
	return &Client{config: c, http: &http.Client{
		Transport:     transport,
		Timeout:       cmp.Or(c.Timeout, DefaultTimeout),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends connections that no attempt uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Send tries once to deliver a message; at is the time that the signature carries. It returns when ctx ends, at the latest.
func (c *Client) Send(ctx context.Context, m Message, at time.Time) Answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Answer{Err: errors.New("send: the URL cannot be used")} // the error would repeat it
	}
	r.Header.Set("Content-Type", cmp.Or(c.config.ContentType, "application/json"))
	r.Header.Set("User-Agent", "floodgate-notify")
	r.Header.Set("Webhook-Id", m.ID)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	if len(c.config.Secrets) > 0 {
		r.Header.Set("Webhook-Signature", signatures(c.config.Secrets, m.ID, at, m.Body))
	}
	response, err := c.http.Do(r)
	if err != nil {
		return Answer{Err: fmt.Errorf("send: %w", withoutURL(err))}
	}
	defer response.Body.Close()
	return read(response)
}

// read returns what a response says. Of a delivered message, how the body ends does not matter. What follows 101 is no body but the
// connection itself, for which no deadline holds any more: it is not read.
func read(response *http.Response) Answer {
	var kept []byte
	if response.StatusCode != http.StatusSwitchingProtocols {
		kept, _ = io.ReadAll(io.LimitReader(response.Body, keptAnswer))
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswer-keptAnswer) // so that the connection can be used again
	}
	a := Answer{Status: response.StatusCode, Body: kept, RetryAfter: retryAfter(response.Header.Get("Retry-After"))}
	switch {
	case a.Status >= 200 && a.Status < 300:
	case a.Status >= 300 && a.Status < 400:
		a.Err = fmt.Errorf("send: got status %d, want 2xx; redirects are not followed", a.Status)
	default:
		a.Err = fmt.Errorf("send: got status %d, want 2xx", a.Status)
	}
	return a
}

// retryAfter returns what the header says in seconds. Dates are ignored: nobody knows the receiver's clock.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// withoutURL returns what package http reports of a failed request, without the URL.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

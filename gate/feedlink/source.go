package feedlink

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
)

const (
	frameConns   = 3 // that send frames, at most; one more follows the feed
	dialTimeout  = 5 * time.Second
	frameTimeout = 20 * time.Second // for the answer to a frame: longer than the feed waits for Kafka
	idleTimeout  = time.Minute      // of a connection without a frame
	maxRetry     = 10 * time.Second // longest pause that a feed can ask for
	maxReason    = 4 << 10          // bytes of an answer that are read
)

// source is a feed, as a kafkalink.Source: where the Link's decisions come from, and where its frames go.
type source struct {
	set    *gate.Set
	key    string
	closed resource // its URL has no cursor yet
	frames resource
}

// resource is what a feed answers at one path. Each has connections of its own, so that a feed that keeps frames waiting is followed.
type resource struct {
	url    string
	client *http.Client
}

// newSource returns a source. It does no I/O.
func newSource(set *gate.Set, c Config) (*source, error) {
	q, err := c.query()
	if err != nil {
		return nil, err
	}
	base, socket, err := c.base()
	if err != nil {
		return nil, err
	}
	return &source{
		set: set, key: c.Key,
		closed: resource{base + "/v1/closed?" + q.Encode(), newClient(socket, c.TLS, 1)},
		frames: resource{base + "/v1/frames", newClient(socket, c.TLS, frameConns)},
	}, nil
}

// newClient returns a client with at most conns connections, to a Unix socket unless that is empty.
func newClient(socket string, secure *tls.Config, conns int) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	dial := dialer.DialContext
	if socket != "" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dial, TLSClientConfig: secure, DisableCompression: true,
			MaxConnsPerHost: conns, MaxIdleConnsPerHost: conns, IdleConnTimeout: idleTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key goes nowhere else
	}
}

// Close closes the connections. Nothing is in flight any more.
func (s *source) Close() {
	s.closed.client.CloseIdleConnections()
	s.frames.client.CloseIdleConnections()
}

// ask sends a request. query is added to the URL.
func (s *source) ask(ctx context.Context, method string, to *resource, query string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, to.url+query, body)
	if err != nil {
		return nil, err
	}
	if s.key != "" {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	return to.client.Do(r)
}

// answerError says that a feed has given another answer than the one hoped for.
type answerError struct {
	status     int
	reason     kafkalink.FrameReason // of a frame that was refused; empty: it gave none
	text       string                // what it says, cut short
	retryAfter time.Duration         // 0: it does not say
}

func (e *answerError) Error() string {
	return fmt.Sprintf("got status %d from the feed: %.200q", e.status, e.text)
}

// answerOf reads what an answer says.
func answerOf(r *http.Response) *answerError {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxReason)) // a part of it does, too
	e := &answerError{status: r.StatusCode, text: strings.TrimSpace(string(body))}
	var said struct {
		Reason kafkalink.FrameReason
		Error  string
	}
	if json.Unmarshal(body, &said) == nil {
		e.reason, e.text = said.Reason, cmp.Or(said.Error, e.text)
	}
	if n, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && n > 0 {
		e.retryAfter = min(time.Duration(min(n, 3600))*time.Second, maxRetry)
	}
	return e
}

// judge returns what an answer says of a frame.
func (e *answerError) judge() kafkalink.FrameReason {
	switch {
	case e.status == http.StatusBadRequest && e.reason != "":
		return e.reason
	case e.status == http.StatusRequestEntityTooLarge:
		return kafkalink.FrameRefused
	case e.status == http.StatusServiceUnavailable, 400 <= e.status && e.status < 500: // a wrong key, or no feed
		return kafkalink.FrameUnsent
	}
	return kafkalink.FrameUnknown
}

// Send implements kafkalink.Source. It waits for as long as the answer asks for.
func (s *source) Send(ctx context.Context, frame []byte) error {
	var sent atomic.Bool // or it may have been
	ctx, cancel := context.WithTimeout(ctx, frameTimeout)
	defer cancel()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := s.ask(traced, http.MethodPost, &s.frames, "", bytes.NewReader(frame))
	if err != nil {
		reason := kafkalink.FrameUnsent
		if sent.Load() {
			reason = kafkalink.FrameUnknown
		}
		return &kafkalink.FrameError{Reason: reason, Err: err}
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusNoContent {
		return nil
	}
	answer := answerOf(r)
	reason := answer.judge()
	if reason == kafkalink.FrameUnsent {
		sleep(ctx, answer.retryAfter)
	}
	return &kafkalink.FrameError{Reason: reason, Err: answer}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

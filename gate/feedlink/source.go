package feedlink

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
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
	"github.com/509da70d/floodgate/store/kafkaio"
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
	reason     string        // of a frame that was refused; empty: it gave none
	text       string        // what it says, cut short
	retryAfter time.Duration // 0: it does not say
}

func (e *answerError) Error() string {
	return fmt.Sprintf("got status %d from the feed: %.200q", e.status, e.text)
}

// answerOf reads what an answer says.
func answerOf(r *http.Response) *answerError {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxReason)) // a part of it does, too
	e := &answerError{status: r.StatusCode, text: strings.TrimSpace(string(body))}
	var said struct{ Reason, Error string }
	if json.Unmarshal(body, &said) == nil {
		e.reason, e.text = said.Reason, cmp.Or(said.Error, e.text)
	}
	if n, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && n > 0 {
		e.retryAfter = min(time.Duration(min(n, 3600))*time.Second, maxRetry)
	}
	return e
}

// Produce sends a frame, and returns when Kafka has it. Topic and partition are the sidecar's business. Its errors are those of
// kafkaio.Client.Produce: they say whether Kafka may have the frame, and whether it will ever take it.
func (s *source) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (base int64, err error) {
	if len(msgs) != 1 {
		panic("BUG: a frame is one message")
	}
	if outcome, err := s.post(ctx, msgs[0].Value); err != nil {
		return -1, &kafkaio.RequestError{Op: "send a frame of", Topic: topic, Partition: partition, Outcome: outcome, Err: err}
	}
	return 0, nil
}

// post sends a frame, and waits for as long as the answer asks for.
func (s *source) post(ctx context.Context, frame []byte) (kafkaio.Outcome, error) {
	var sent atomic.Bool // or it may have been
	ctx, cancel := context.WithTimeout(ctx, frameTimeout)
	defer cancel()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := s.ask(traced, http.MethodPost, &s.frames, "", bytes.NewReader(frame))
	switch {
	case err == nil:
	case sent.Load():
		return kafkaio.Unknown, err
	default:
		return kafkaio.Unsent, err
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusNoContent {
		return kafkaio.Acked, nil
	}
	answer := answerOf(r)
	outcome, err := judge(answer)
	if answer.retryAfter > 0 && outcome == kafkaio.Unsent {
		_ = kafkaio.Sleep(ctx, answer.retryAfter) // whoever called looks at ctx
	}
	return outcome, err
}

// judge returns what an answer says of a frame.
func judge(a *answerError) (kafkaio.Outcome, error) {
	switch {
	case a.status == http.StatusBadRequest && a.reason == "time":
		return kafkaio.Refused, errors.Join(kafkaio.ErrTimestamp, a)
	case a.status == http.StatusBadRequest && a.reason != "":
		return kafkaio.Refused, a
	case a.status == http.StatusRequestEntityTooLarge:
		return kafkaio.Refused, errors.Join(kafkaio.ErrTooLarge, a)
	case a.status == http.StatusServiceUnavailable, 400 <= a.status && a.status < 500: // a wrong key, or no feed
		return kafkaio.Unsent, a
	}
	return kafkaio.Unknown, a
}

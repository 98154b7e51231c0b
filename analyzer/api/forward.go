package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// Bounds of what is forwarded.
const (
	dialTimeout    = time.Second
	forwardTimeout = 5 * time.Second
	maxForwarded   = 16 << 20 // bytes of an answer
)

// newPeers returns the client that asks other analyzers. It follows no redirect, uses no proxy, and connects only to addresses that an
// analyzer can have, because the addresses in heartbeats are not trusted. It checks the address to which a name was resolved.
func (s *Server) newPeers() *http.Client {
	local, _ := loopback(s.config.Address) // New has checked it
	dialer := &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || forbidden(at.Addr().WithZone(""), local) {
			return fmt.Errorf("%s: %w", address, errAddress)
		}
		return nil
	}}
	t := &http.Transport{
		DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTimeout,
		ResponseHeaderTimeout: forwardTimeout, MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
	}
	if s.tls != nil {
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return s.tls.dial(ctx, dialer, network, address)
		}
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// errAddress says that a heartbeat names an address to which nothing is forwarded.
var errAddress = errors.New("nothing is forwarded to such an address")

// ownerOf returns the address of the running owner of a partition, or the problem that says why nobody can be asked.
func (c *call) ownerOf(partition int) (string, error) {
	h, ok := c.backend.Board.Heartbeat(partition)
	switch {
	case !ok:
		return "", problem(http.StatusServiceUnavailable, "partition %d has no running owner: no heartbeat of it is known", partition)
	case !c.backend.Board.Heard(partition, c.now()):
		return "", problem(http.StatusServiceUnavailable, "partition %d has no running owner: its last heartbeat was at %s",
			partition, time.Unix(0, h.Time).UTC().Format(time.RFC3339))
	case h.API == "":
		return "", problem(http.StatusServiceUnavailable, "partition %d: its owner runs no API that others reach: see --api-advertise", partition)
	case h.API == c.server.config.Advertise:
		return "", problem(http.StatusServiceUnavailable, "partition %d is on its way to another owner", partition)
	case c.server.signer == nil:
		return "", problem(http.StatusServiceUnavailable, "partition %d is owned by another analyzer; this one has no cluster key: see --api-cluster-key-file", partition)
	case checkAdvertised(h.API) != nil:
		return "", problem(http.StatusServiceUnavailable, "partition %d: its heartbeats name an address that cannot be an analyzer's", partition)
	}
	return h.API, nil
}

// forward sends this call to the analyzer at an address, with the given query and body. It returns the body of an answer of status 200;
// any other answer is an error.
func (c *call) forward(ctx context.Context, address string, query url.Values, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	resp, err := c.send(ctx, address, query, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxForwarded+1))
	if err != nil || len(answer) > maxForwarded {
		return nil, problem(http.StatusBadGateway, "the owner of the partition did not answer in full")
	}
	if resp.StatusCode != http.StatusOK {
		return nil, badForward(resp.StatusCode, answer)
	}
	return answer, nil
}

// send forwards the call once.
func (c *call) send(ctx context.Context, address string, query url.Values, body []byte) (*http.Response, error) {
	if c.identity.forwarded {
		return nil, problem(http.StatusLoopDetected, "a forwarded request is not forwarded again: the partition has another owner by now")
	}
	u := url.URL{Scheme: "http", Host: address, Path: c.route.path, RawQuery: query.Encode()}
	if c.server.tls != nil {
		u.Scheme = "https"
	}
	r, err := http.NewRequestWithContext(ctx, c.route.method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, "heartbeats name an address that cannot be an analyzer's")
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", c.Header.Get("Accept"))
	r.Header.Set("User-Agent", "floodgate")
	asks := *c.identity
	if c.route.path == "/v1/callers" {
		asks.redact = false // lists are merged by their ids, and redacted here
	}
	c.server.signer.sign(r, body, address, &asks, c.now())
	resp, err := c.server.peers.Do(r)
	if err != nil {
		c.server.logger.Warn("cannot ask the owner of a partition", "address", address, "path", c.route.path, "error", err)
		return nil, problem(http.StatusServiceUnavailable, "the analyzer that owns the partition did not answer")
	}
	return resp, nil
}

// badForward returns the problem for a client whose forwarded request failed. Mistakes of the client and states of the owner are passed on.
func badForward(status int, body []byte) *apiv1.Problem {
	switch status {
	case http.StatusLoopDetected:
		return problem(http.StatusServiceUnavailable, "the partition is on its way to another owner")
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return readProblem(status, body)
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotFound:
		return readProblem(status, body)
	case http.StatusUnauthorized:
		return problem(http.StatusBadGateway, "the owner of the partition did not accept the signature: all analyzers need one --api-cluster-key-file, "+
			"--api-advertise as their own name, and clocks that agree to %v", maxSkew)
	}
	return problem(http.StatusBadGateway, "the owner of the partition answered with status %d", status)
}

// problemFor returns the problem for the client of any error of a handler.
func (s *Server) problemFor(err error) *apiv1.Problem {
	if e, ok := errors.AsType[*analyzer.NotRunningError](err); ok {
		return problem(http.StatusServiceUnavailable, "%v", e)
	}
	if e, ok := errors.AsType[*analyzer.NotOwnerError](err); ok {
		return problem(http.StatusLoopDetected, "a forwarded request is not forwarded again: %v", e)
	}
	if errors.Is(err, analyzer.ErrBusy) {
		return problem(http.StatusServiceUnavailable, "%v", err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return problem(http.StatusServiceUnavailable, "the answer took too long")
	}
	return problemOf(err)
}

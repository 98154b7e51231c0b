package feedlink

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// ErrConfig says that a Config cannot be used.
var ErrConfig = errors.New("bad configuration of a feed link")

// Config says where the feed is, and what a Link does. Address is needed; the zero value of the rest is ready to use.
type Config struct {
	Address string      // unix:PATH, or host:port
	Key     string      // at a TCP address: what the feed's file of keys has the SHA-256 of; empty is none
	TLS     *tls.Config // at a TCP address, if a proxy stands before the feed; nil is plain HTTP
	Kinds   []string    // of callers that the Set's gates know; empty: all

	PartitionKey schemas.PartitionKey // the installation's secret; zero is schemas.DefaultPartitionKey

	// These are as in kafkalink.Config.
	Drain    time.Duration
	Backlog  int
	MaxDelay time.Duration
	Retry    time.Duration
	Observe  func(d schemas.Decision, applied time.Time)
	Logger   *slog.Logger
}

// Open returns a Link that sends what the Recorder records to the feed, and applies the feed's decisions to the Set, until Close. It
// returns at once: a feed that cannot be reached is no error, and the Link tries again until it can. The error is ErrConfig. A Recorder
// and a Set have one Link at a time.
func Open(set *gate.Set, rec *record.Recorder, c Config) (*kafkalink.Link, error) {
	s, err := newSource(set, c)
	if err != nil {
		return nil, err
	}
	return s.open(rec, c)
}

// open returns a Link over the source.
func (s *source) open(rec *record.Recorder, c Config) (*kafkalink.Link, error) {
	return kafkalink.Open(s.set, rec, kafkalink.Config{
		Source: s, PartitionKey: c.PartitionKey, Canary: -1,
		Drain: c.Drain, Backlog: c.Backlog, MaxDelay: c.MaxDelay, Retry: c.Retry, Observe: c.Observe, Logger: c.Logger,
	})
}

// query returns the parameters of the feed: everything that a Set can use.
func (c *Config) query() (url.Values, error) {
	for _, kind := range c.Kinds {
		if err := schemas.ValidateKind(kind); err != nil {
			return nil, fmt.Errorf("%w: Kinds: %w", ErrConfig, err)
		}
	}
	q := url.Values{"shares": {"true"}}
	if len(c.Kinds) > 0 {
		q["kind"] = c.Kinds
	}
	return q, nil
}

// base returns the address as a URL, and the path of the Unix socket if it is one.
func (c *Config) base() (url, socket string, err error) {
	socket, unix := strings.CutPrefix(c.Address, "unix:")
	switch {
	case unix && socket != "":
		return "http://feed", socket, nil
	case unix, c.Address == "", strings.ContainsAny(c.Address, "/?# "):
		return "", "", fmt.Errorf("%w: Address: got %q, want unix:PATH or host:port", ErrConfig, c.Address)
	case c.TLS != nil:
		return "https://" + c.Address, "", nil
	}
	return "http://" + c.Address, "", nil
}

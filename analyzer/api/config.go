package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// Errors of New. Test with errors.Is.
var (
	// ErrExposed says that others than this machine would reach the API, and that it would not be safe.
	ErrExposed = errors.New("not safe beyond loopback")
	// ErrConfig says that a field of a Config cannot be used.
	ErrConfig = errors.New("bad configuration of the API")
)

// Limiter bounds how often a key comes. *limit.Keyed of gate/limit is one. AllowN is safe for concurrent use.
type Limiter interface {
	AllowN(at time.Time, key string, n int) bool
}

// Config configures a Server. The zero value of a field is its default.
type Config struct {
	Address      string   // host:port on which it listens: required. Host is an address or localhost; others than loopback need tokens and TLS
	Advertise    string   // host:port at which other analyzers reach this one; empty: they do not
	AllowedHosts []string // names that Host may have besides localhost, Advertise's, and the addresses of this machine

	TokenFile    string // lines of NAME ROLE SHA256, read again when it changes; empty: no tokens
	LoopbackActs bool   // without tokens, loopback may do everything. For demonstrations
	Redact       bool   // role read sees hashes in place of ids

	CertFile, KeyFile string // PEM files of the server's certificate and key; both or none. They are read again when they change
	ClientCAFile      string // PEM file of the authorities of clients, which then need a certificate; other analyzers are verified by it too

	Page  http.Handler // the dashboard, of package analyzer/api/ui, for /ui and all paths below it; nil: there is none
	Links *Links       // of the dashboard; nil: there are none

	ClusterKey []byte // the secret that all analyzers share, MinClusterKey bytes or more; empty: nothing is forwarded

	IDs      schemas.IDs // how ids are made: the same as in gates
	ByToken  Limiter     // of requests of one token; nil: not limited
	ByClient Limiter     // of requests from one address; nil: not limited

	Acknowledge time.Duration    // how long a POST waits for owners; 0 is 2 s
	Version     string           // of this program, for people
	Logger      *slog.Logger     // nil discards
	Clock       func() time.Time // nil is time.Now
}

// defaultAcknowledge is how long a POST waits until owners have applied its record.
const defaultAcknowledge = 2 * time.Second

// withDefaults returns the Config with its defaults, or what is wrong with it. It reads no file.
func (c Config) withDefaults() (Config, error) {
	c.Acknowledge = cmp.Or(c.Acknowledge, defaultAcknowledge)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if err := c.IDs.Validate(); err != nil {
		return c, err
	}
	local, err := loopback(c.Address)
	switch {
	case err != nil:
		return c, fmt.Errorf("%w: address to listen on: %w", ErrConfig, err)
	case (c.CertFile == "") != (c.KeyFile == ""):
		return c, fmt.Errorf("%w: got one of certificate and key, want both or none", ErrConfig)
	case c.ClientCAFile != "" && c.CertFile == "":
		return c, fmt.Errorf("%w: got authorities of clients without a certificate of the server, want both", ErrConfig)
	case c.LoopbackActs && c.TokenFile != "":
		return c, fmt.Errorf("%w: got tokens, and loopback that may do everything without one, want one of both", ErrConfig)
	case len(c.ClusterKey) > 0 && len(c.ClusterKey) < MinClusterKey:
		return c, fmt.Errorf("%w: key of the cluster: got %d bytes, want %d or more", ErrConfig, len(c.ClusterKey), MinClusterKey)
	case !local && (c.TokenFile == "" || c.CertFile == ""):
		return c, fmt.Errorf("%w: got address %s, want TLS and tokens, or an address such as 127.0.0.1:9096", ErrExposed, c.Address)
	}
	if c.Advertise != "" {
		if err := checkAdvertised(c.Advertise); err != nil {
			return c, fmt.Errorf("%w: address for other analyzers: %w", ErrConfig, err)
		}
	}
	return c, nil
}

// loopback reports whether only this machine reaches an address to listen on.
func loopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("got %.64q, want host:port", address)
	}
	if strings.EqualFold(host, "localhost") {
		return true, nil
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback(), nil
}

// checkAdvertised reports whether a heartbeat can carry an address, and whether a connection to it can mean anything.
func checkAdvertised(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || port == "0" {
		return fmt.Errorf("got %.64q, want host:port of this analyzer", address)
	}
	if len(address) > pb.MaxAPI {
		return fmt.Errorf("got %d bytes, want %d at most", len(address), pb.MaxAPI)
	}
	if addr, err := netip.ParseAddr(host); err == nil && forbidden(addr, true) {
		return fmt.Errorf("got %s, want an address at which others reach this analyzer", address)
	}
	return nil
}

// forbidden reports whether nothing is ever forwarded to an address: it is no place of an analyzer, whatever a heartbeat says.
// Link-local addresses are those of the services that give credentials to virtual machines. Loopback is for analyzers of
// one machine.
func forbidden(addr netip.Addr, local bool) bool {
	addr = addr.Unmap()
	return !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() || addr == cloudMetadata() ||
		addr.IsLoopback() && !local
}

// cloudMetadata is the address of such a service that is not link-local.
func cloudMetadata() netip.Addr { return netip.MustParseAddr("fd00:ec2::254") }

package api

import (
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// identity is the person, program or analyzer that a request comes from.
type identity struct {
	name      string
	role      Role
	redact    bool              // sees hashes in place of ids
	forwarded bool              // another analyzer asks on behalf of name
	token     bool              // the request has a token
	sum       [sha256.Size]byte // of that token
}

// checkHost refuses a request for a name that is not this server's. Otherwise a stranger could make the name of a page point to this
// server, and browsers would take the page and the server for one origin.
func (s *Server) checkHost(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if s.hosts[host] {
		return nil
	}
	// The address at which the connection arrived is this server's.
	if addr, err := netip.ParseAddr(host); err == nil {
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			if at, err := netip.ParseAddrPort(local.String()); err == nil && at.Addr().Unmap().WithZone("") == addr.Unmap() {
				return nil
			}
		}
	}
	return wrong(http.StatusMisdirectedRequest, "Host", r.Host, "a name of this server: see --api-allowed-hosts")
}

// names returns the names that Host may have.
func (c *Config) names() map[string]bool {
	names := make(map[string]bool)
	if local, err := loopback(c.Address); err == nil && local {
		names["localhost"] = true
	}
	if host, _, err := net.SplitHostPort(c.Advertise); err == nil {
		names[strings.ToLower(host)] = true
	}
	for _, host := range c.AllowedHosts {
		names[strings.ToLower(strings.Trim(host, "[]"))] = true
	}
	return names
}

// identify returns the identity that a request comes from. It reads the body of a request that another analyzer has forwarded.
func (s *Server) identify(c *call) (*identity, error) {
	if c.Header.Get(headerSignature) != "" {
		return s.identifyForwarded(c)
	}
	if err := s.limitClient(c); err != nil {
		return nil, err
	}
	scheme, text, _ := strings.Cut(c.Header.Get("Authorization"), " ")
	sent := strings.EqualFold(scheme, "Bearer") && len(c.Header.Values("Authorization")) == 1
	now := s.config.Clock()
	t, ok := token{}, false
	if sent {
		t, ok = s.findToken(text, now)
	}
	switch {
	case ok:
	case !s.needsToken():
		return s.identifyLoopback(c)
	case !sent:
		return nil, problem(http.StatusUnauthorized, "the request has no token: send it as Authorization: Bearer TOKEN")
	default:
		return nil, problem(http.StatusUnauthorized, "the token is not known")
	}
	if l := s.config.ByToken; l != nil && !l.AllowN(now, string(t.sum[:]), 1) {
		return nil, problem(http.StatusTooManyRequests, "too many requests with this token")
	}
	return &identity{name: t.name, role: t.role, redact: s.config.Redact && t.role == roleRead, token: true, sum: t.sum}, nil
}

// limitClient refuses a request if too many come from its address.
func (s *Server) limitClient(c *call) error {
	if l := s.config.ByClient; l != nil && !l.AllowN(s.config.Clock(), s.client(c.Request), 1) {
		return problem(http.StatusTooManyRequests, "too many requests from this address")
	}
	return nil
}

// identifyLoopback returns the identity of a request to a server without tokens. New has made sure that the server listens on loopback.
func (s *Server) identifyLoopback(c *call) (*identity, error) {
	addr, err := netip.ParseAddrPort(c.RemoteAddr)
	if err != nil || !addr.Addr().Unmap().IsLoopback() {
		return nil, problem(http.StatusForbidden, "this server has no tokens, and answers its own machine only")
	}
	if s.config.LoopbackActs {
		return &identity{name: "loopback", role: roleAdmin}, nil
	}
	return &identity{name: "loopback", role: roleRead, redact: s.config.Redact}, nil
}

// identifyForwarded returns the identity for which another analyzer has forwarded the request. That analyzer has checked the token.
func (s *Server) identifyForwarded(c *call) (*identity, error) {
	if s.signer == nil || s.config.Advertise == "" {
		return nil, problem(http.StatusUnauthorized, "this analyzer accepts no forwarded requests: see --api-cluster-key-file and --api-advertise")
	}
	if !c.route.forwardable {
		return nil, problem(http.StatusForbidden, "requests of this route are never forwarded")
	}
	body, err := c.readBody()
	if err != nil {
		return nil, err
	}
	w, err := s.signer.verify(c.Request, body, s.config.Advertise, s.config.Clock())
	if err == nil {
		return w, nil
	}
	if err := s.limitClient(c); err != nil {
		return nil, err
	}
	s.logger.Warn("refused a forwarded request", "address", c.RemoteAddr, "path", c.URL.Path, "error", err)
	if errors.Is(err, errForwardMany) {
		return nil, problem(http.StatusServiceUnavailable, "%v", err)
	}
	return nil, problem(http.StatusUnauthorized, "%v", err)
}

// client returns the key under which a Limiter counts an address: all of IPv4, the network of one client of IPv6.
func (s *Server) client(r *http.Request) string {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return s.config.IDs.Addr(addr.Addr()).String()
}

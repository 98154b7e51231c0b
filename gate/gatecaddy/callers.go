package gatecaddy

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/schemas"
)

// part is a part of a caller's id: the client's address (ip), the network of it (net), a field of the header, or a placeholder of Caddy in braces.
type part string

// idFunc returns the function that finds the part of a request's caller; "" if the request has none.
func (p part) idFunc(s *gate.Set) func(*http.Request) string {
	if p == schemas.KindIP || p == schemas.KindNet {
		ids := s.IDs()
		return func(r *http.Request) string { return ids.AddrID(string(p), clientAddr(r)) }
	}
	if placeholder, ok := p.placeholder(); ok {
		return func(r *http.Request) string {
			id, _ := replacer(r).GetString(placeholder)
			return id
		}
	}
	return gatehttp.HeaderValue(string(p))
}

// placeholder returns the name of the placeholder that the part is, if it is one.
func (p part) placeholder() (string, bool) {
	name, ok := strings.CutPrefix(string(p), "{")
	name, end := strings.CutSuffix(name, "}")
	return name, ok && end && name != "" && !strings.ContainsAny(name, "{}")
}

// parseCaller reads kind=part or kind=part+part, as --callers of "floodgate sidecar" does, and placeholders besides.
func parseCaller(text string) (kind string, parts []part, err error) {
	kind, value, ok := strings.Cut(text, "=")
	if !ok || kind == "" || value == "" {
		return "", nil, fmt.Errorf("callers: got %q, want kind=part or kind=part+part, where a part is ip, net, a header or a {placeholder}", text)
	}
	if err := schemas.ValidateKind(kind); err != nil {
		return "", nil, fmt.Errorf("callers: %w", err)
	}
	for name := range strings.SplitSeq(value, "+") {
		p := part(name)
		if _, ok := p.placeholder(); name == "" || !ok && strings.ContainsAny(name, ",= {}") { // no name of a header has them
			return "", nil, fmt.Errorf("callers: got part %q of %q, want ip, net, a header or a {placeholder}", name, text)
		}
		parts = append(parts, p)
	}
	return kind, parts, nil
}

// parseCallers returns what finds the callers of a request: its address, and those of the texts.
func parseCallers(texts []string) ([]gatehttp.CallerFunc, error) {
	functions := []gatehttp.CallerFunc{clientIP}
	for _, text := range texts {
		kind, parts, err := parseCaller(text)
		if err != nil {
			return nil, err
		}
		functions = append(functions, func(s *gate.Set) gatehttp.AddFunc {
			ids := make([]func(*http.Request) string, len(parts))
			for i, p := range parts {
				ids[i] = p.idFunc(s)
			}
			return gatehttp.Composite(kind, ids...)(s)
		})
	}
	if len(functions) > gate.MaxCallers {
		return nil, fmt.Errorf("callers: got %d, want at most %d beside ip", len(functions)-1, gate.MaxCallers-1)
	}
	return slices.Clip(functions), nil
}

// clientIP adds the client's address as a caller of kind ip.
func clientIP(s *gate.Set) gatehttp.AddFunc {
	g := s.Gate(schemas.KindIP)
	return func(r *http.Request, c *gate.Callers) { c.AddAddr(g, clientAddr(r)) }
}

// clientAddr returns the client's address as Caddy has found it, by its trusted_proxies. Caddy finds none for a peer on a Unix socket
// that it does not trust: that counts as 127.0.0.1, as everywhere in floodgate.
func clientAddr(r *http.Request) netip.Addr {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return gatehttp.ClientAddr(nil)(r)
	}
	return addr
}

func replacer(r *http.Request) *caddy.Replacer {
	return r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer) //nolint:errcheck,forcetypeassert // Caddy gives each request one
}

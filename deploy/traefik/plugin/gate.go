// Package plugin is a plugin of Traefik: a gate that refuses closed callers from Traefik's own memory. It follows a feed of floodgate
// (schemas/FEED.md).
//
//	feed ──lines──▶ follower, one for each feed ──decisions──▶ memory ──closed?──▶ middleware, one for each router
//
// Traefik interprets a plugin (Yaegi). So this one uses the standard library only, and leaves as much as it can of a request's work to
// functions of that library, which are compiled. Its tests run it as an ordinary package, and the laboratory in Traefik.
//
// # Chosen input
//
// Clients choose ids. They are looked up by one map, whose hash has a key.
package plugin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is the plugin's part of a middleware in Traefik's configuration.
type Config struct {
	Feed       string   // unix:PATH, or HOST:PORT with a Key
	Key        string   // of a feed at a TCP address
	Callers    []string // beside ip: kind=Header, or kind=part+part for a composite one, where ip is a part too
	Trusted    []string // proxies before Traefik, as CIDR: their X-Forwarded-For says who the client is
	Policy     string   // what stale decisions do: hold, open or closed
	IPv6Prefix int      // how many bits of an IPv6 address are one client
	MaxHeld    int      // decisions
}

// CreateConfig returns the defaults. Traefik calls it.
func CreateConfig() *Config {
	return &Config{Policy: "hold", IPv6Prefix: 64, MaxHeld: 1 << 20}
}

// gate is the middleware of one router.
type gate struct {
	next    http.Handler
	memory  *memory
	policy  string
	prefix  int
	trusted []netip.Prefix
	callers []caller
}

// caller says how a request's caller of one kind is made.
type caller struct {
	held  *sync.Map // of the kind
	parts []string  // canonical names of header fields; "" is the address
}

// New returns a middleware. Traefik calls it for each router, and again whenever its configuration changes. Then the context of the one
// before ends.
func New(ctx context.Context, next http.Handler, config *Config, _ string) (http.Handler, error) {
	g := &gate{next: next, policy: config.Policy, prefix: config.IPv6Prefix}
	if config.Policy != "hold" && config.Policy != "open" && config.Policy != "closed" {
		return nil, errors.New("floodgate: policy: got " + strconv.Quote(config.Policy) + ", want hold, open or closed")
	}
	if config.IPv6Prefix < 1 || config.IPv6Prefix > 128 {
		return nil, errors.New("floodgate: ipv6Prefix: got " + strconv.Itoa(config.IPv6Prefix) + ", want 1 to 128")
	}
	for _, text := range config.Trusted {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, errors.New("floodgate: trusted: " + err.Error())
		}
		g.trusted = append(g.trusted, prefix)
	}
	var kinds []string
	for _, text := range append([]string{"ip=ip"}, config.Callers...) {
		kind, parts, ok := strings.Cut(text, "=")
		if !ok || kind == "" || parts == "" {
			return nil, errors.New("floodgate: callers: got " + strconv.Quote(text) + ", want kind=Header or kind=part+part")
		}
		var c caller
		for _, part := range strings.Split(parts, "+") { //nolint:modernize // Yaegi has no range over functions
			if part == "ip" {
				part = ""
			}
			c.parts = append(c.parts, http.CanonicalHeaderKey(part))
		}
		g.callers = append(g.callers, c)
		kinds = append(kinds, kind)
	}
	f, err := follow(ctx, config)
	if err != nil {
		return nil, err
	}
	g.memory = f.memory
	for i, kind := range kinds {
		g.callers[i].held = g.memory.kind(kind)
	}
	switch {
	case len(g.trusted) > 0 || g.policy == "closed":
		return http.HandlerFunc(g.serve), nil
	case len(g.callers) > 1:
		return g.byCallers(), nil
	}
	return g.byAddress(), nil
}

// byAddress is serve for the usual middleware, with the least work for the interpreter: most requests are of IPv4 addresses that nobody
// has closed.
func (g *gate) byAddress() http.Handler {
	held, next := g.callers[0].held, g.next
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i := strings.LastIndexByte(r.RemoteAddr, ':'); i > 0 && r.RemoteAddr[0] != '[' {
			if _, hit := held.Load(r.RemoteAddr[:i]); !hit {
				next.ServeHTTP(w, r)
				return
			}
		}
		g.serve(w, r)
	})
}

// byCallers is the same with more callers than the address. It makes their ids in the simplest way, and leaves those that may be made
// otherwise to serve.
//
//nolint:gocognit // each call of a function would cost the interpreter as much as all that it does
func (g *gate) byCallers() http.Handler {
	callers, next, count := g.callers, g.next, &g.memory.count
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := strings.LastIndexByte(r.RemoteAddr, ':')
		hit := i <= 0 || r.RemoteAddr[0] == '['
		if !hit && count.Load() > 0 {
			ip := r.RemoteAddr[:i]
			for _, c := range callers {
				id := ""
				for j, part := range c.parts {
					value := ip
					if part != "" {
						value = strings.TrimSpace(r.Header.Get(part))
					}
					if value == "" {
						id = ""
						break
					}
					if j > 0 {
						id += "|"
					}
					id += value
				}
				if id == "" {
					continue
				}
				_, hit = c.held.Load(id)
				if hit || len(id) > 254 || id[0] == 'h' || len(c.parts) > 1 && (strings.Count(id, "|") >= len(c.parts) || strings.IndexByte(id, '~') >= 0) {
					hit = true
					break
				}
			}
		}
		if hit {
			g.serve(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve refuses the requests of closed callers.
func (g *gate) serve(w http.ResponseWriter, r *http.Request) {
	m := g.memory
	if g.policy != "closed" && m.count.Load() == 0 {
		g.next.ServeHTTP(w, r)
		return
	}
	var hits [][]decision
	ip, valid := g.client(r), m.valid.Load()
	for i := range g.callers {
		c := &g.callers[i]
		if hit, ok := c.held.Load(c.id(r, ip)); ok {
			hits = append(hits, hit.([]decision)) //nolint:errcheck,forcetypeassert // there is nothing else in it
		}
	}
	if len(hits) == 0 && g.policy != "closed" {
		g.next.ServeHTTP(w, r)
		return
	}
	v := m.judge(hits, valid, g.policy, unix(time.Now()), m.elapsed())
	if !v.closed {
		g.next.ServeHTTP(w, r)
		return
	}
	v.setFields(w.Header())
	http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
}

// client returns the id of the client's address.
func (g *gate) client(r *http.Request) string {
	peer := r.RemoteAddr
	if i := strings.LastIndexByte(peer, ':'); i >= 0 {
		peer = peer[:i]
	}
	if len(g.trusted) == 0 && strings.IndexByte(peer, ':') < 0 {
		return peer // an IPv4 address, as net/http writes it
	}
	addr, err := netip.ParseAddr(strings.Trim(peer, "[]"))
	if err != nil {
		return ""
	}
	if len(g.trusted) > 0 {
		addr = g.forwarded(addr, r.Header["X-Forwarded-For"])
	}
	return addressID(addr, g.prefix)
}

// forwarded returns the address that a request came from: of the last addresses that proxies wrote the first that is none of a trusted
// proxy.
func (g *gate) forwarded(addr netip.Addr, lines []string) netip.Addr {
	elements := strings.Split(strings.Join(lines, ","), ",")
	for i := len(elements) - 1; i >= 0 && g.trusts(addr); i-- {
		element := strings.TrimSpace(elements[i])
		if element == "" {
			continue
		}
		next, err := netip.ParseAddr(strings.Trim(element, "[]"))
		if err != nil {
			port, err := netip.ParseAddrPort(element)
			if err != nil {
				return addr
			}
			next = port.Addr()
		}
		addr = next
	}
	return addr
}

func (g *gate) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, prefix := range g.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// id returns the id of a request's caller, or nothing if there is no such caller.
func (c *caller) id(r *http.Request, ip string) string {
	if len(c.parts) == 1 {
		if c.parts[0] == "" {
			return ip
		}
		return identifier(strings.TrimSpace(r.Header.Get(c.parts[0])))
	}
	values := make([]string, len(c.parts))
	for i, part := range c.parts {
		values[i] = ip
		if part != "" {
			values[i] = strings.TrimSpace(r.Header.Get(part))
		}
		if values[i] == "" {
			return ""
		}
	}
	return compositeID(values)
}

package rules

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
)

// warnOfRule warns of combinations that are allowed and seldom meant.
func (f ruleParser) warnOfRule(r *Rule) {
	composite := strings.Contains(r.Kind, "route") || strings.Contains(r.Kind, "resource")
	if len(r.Match.Resources) > 0 && r.Kind != "" && !composite {
		f.Warn("match", "only requests for these resources count, but closing shuts the whole caller; "+
			"to limit one route, count callers of kind %s_route", r.Kind)
	}
	if r.ReadsResponses() && r.CountBlocked {
		f.Warn("count_blocked", "a blocked request has no response, so this rule never sees one")
	}
	if r.Window != nil && r.Window.Traits().Aligned && r.Window.Length(0)%int64(7*24*time.Hour) == 0 {
		f.Warn("window", "fixed windows start at multiples since 1970-01-01, a Thursday; window: week starts on Mondays")
	}
}

// warnOfOverride warns of an override that matches no caller, or more callers than it names. The override is for the network
// if that is valid, and for the ids otherwise.
func (f ruleParser) warnOfOverride(at document.Position, field string, r *Rule, ids []string, network netip.Prefix) {
	switch {
	case network.IsValid():
		if r.Kind == schemas.KindIP {
			f.warnOfNetwork(at, field, network)
		}
	case !r.Pattern.Match(ids[0]):
		f.Document().Warnf(at, "%s: %q is not among the callers %s:%s", field, document.Clip(ids[0]), r.Kind, r.Pattern)
	default:
		f.warnOfAddress(at, field, r.Kind, ids[0])
	}
}

// warnOfNetwork warns of a network that is smaller than the network that is counted as one client.
func (f ruleParser) warnOfNetwork(at document.Position, field string, network netip.Prefix) {
	counted := netip.PrefixFrom(f.ids.Addr(network.Addr()), f.ids.Prefix())
	switch {
	case !network.Addr().Is6() || network.Bits() <= counted.Bits():
	case counted.Addr() == network.Addr():
		f.Document().Warnf(at, "%s: %s is for all of %s: IPv6 clients are counted by /%d (--ipv6-prefix)", field, network, counted, counted.Bits())
	default:
		f.Document().Warnf(at, "%s: %s never matches: IPv6 clients are counted by /%d (--ipv6-prefix); want %s",
			field, network, counted.Bits(), counted)
	}
}

// warnOfAddress warns of an id with an IPv6 address that is not the first of its network: clients are counted under the
// first one, so that no caller has this id. An id of several parts is searched for addresses if the kind's name says that
// it has one, as in ip_route.
func (f ruleParser) warnOfAddress(at document.Position, field, kind, id string) {
	parts := []string{id}
	if kind != schemas.KindIP {
		if !slices.Contains(strings.Split(kind, "_"), schemas.KindIP) {
			return
		}
		parts = strings.Split(id, schemas.CompositeSeparator)
	}
	for _, part := range parts {
		addr, err := netip.ParseAddr(part)
		if err != nil {
			continue
		}
		if counted := f.ids.Addr(addr); counted != schemas.CanonicalAddr(addr) {
			f.Document().Warnf(at, "%s: %q never matches: IPv6 clients are counted by /%d (--ipv6-prefix), under the network's first address; want %s",
				field, document.Clip(id), f.ids.Prefix(), counted)
		}
	}
}

// warnOfPattern warns of a pattern of ids that matches no caller, or fewer callers than its author expects: a pattern is
// compared with the counted form of an id, and a long id is counted by its beginning and a hash.
func (f ruleParser) warnOfPattern(r *Rule) {
	if r.Kind == "" || r.Pattern.All() {
		return
	}
	at := f.Position("callers")
	if f.ids.Hash.Kind(r.Kind) != nil {
		f.Document().Errorf(at, "callers: got a pattern of ids, want only %s: ids of this kind are hashed with a secret (--hash-kinds), and a pattern sees the hash",
			r.Kind)
		return
	}
	f.warnOfAddress(at, "callers", r.Kind, r.Pattern.String())
	if r.Kind == schemas.KindIP || len(r.Pattern.Parts()) == 0 {
		return
	}
	parts := r.Pattern.Parts()
	first, last := parts[0], parts[len(parts)-1]
	if len(first) > schemas.MaxPlainPrefix {
		f.Document().Warnf(at, "callers: the pattern begins with %d bytes, and no id over %d bytes matches it: only the first %d bytes of such an id are kept before its hash",
			len(first), schemas.MaxCallerID, schemas.MaxPlainPrefix)
	}
	if last != "" {
		f.Document().Warnf(at, "callers: the pattern ends with %q, and no id over %d bytes matches it: such an id ends with its hash", document.Clip(last), schemas.MaxCallerID)
	}
}

// warnOfResource warns of a pattern that matches no resource of the form "GET /search" or "/search". Servers that choose names of
// their own for their resources may still mean it.
func (f ruleParser) warnOfResource(at document.Position, text string) {
	method, path, found := strings.Cut(text, " ")
	if !found {
		method, path = "", text
	}
	known := schemas.Method(strings.Trim(method, "*"))
	switch {
	case strings.Contains(text, "?"):
		f.Document().Warnf(at, "resource: %q has a question mark, and resources have no query", document.Clip(text))
	case found && !strings.Contains(method, "*") && known != method && known != schemas.MethodOther:
		f.Document().Warnf(at, "resource: got the method %q, want %s: methods are in capital letters", document.Clip(method), known)
	case found && !strings.ContainsAny(method, "*/") && known == schemas.MethodOther && method != known:
		f.Document().Warnf(at, "resource: got the method %q, want one of HTTP, such as GET, or %s for all others", document.Clip(method), schemas.MethodOther)
	case !strings.ContainsAny(path, "/*("):
		f.Document().Warnf(at, "resource: %q names no path: a resource is a method, a blank and a path, such as %q", document.Clip(text), "GET /"+document.Clip(path))
	}
}

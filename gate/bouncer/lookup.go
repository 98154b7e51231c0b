package bouncer

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/509da70d/floodgate/schemas"
)

// lookup answers /v1/decisions: what closes an address now, or all closed addresses.
func (s *Server) lookup(w http.ResponseWriter, r *http.Request, _ string) int {
	q, err := parseLookup(r.URL.RawQuery)
	if err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error())
		return routeLookup
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return routeLookup
	}
	out := newWriter(w)
	if candidates, ok := s.candidates(&q); ok {
		for _, addr := range candidates {
			s.lookupOne(out, &q, addr)
		}
		out.endList()
	} else {
		s.lookupAll(r.Context(), out, &q)
	}
	if !out.end(r) {
		s.stats.errors[errorCut].Add(1)
	}
	return routeLookup
}

// candidates returns the only callers that a question can be about. ok is false if it can be about any.
func (s *Server) candidates(q *query) (list []netip.Addr, ok bool) {
	if q.value != "" {
		p, err := netip.ParsePrefix(q.value)
		if addr, addrErr := netip.ParseAddr(q.value); addrErr == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || s.prefix(p.Addr()) != p {
			return nil, true // no item has this value
		}
		return []netip.Addr{p.Addr()}, true
	}
	if !q.within.IsValid() || q.inside {
		return nil, false
	}
	addr := q.within.Addr()
	if network := s.options.IDs.Addr(addr); network != addr {
		list = append(list, network)
	}
	return append(list, addr), true
}

// lookupOne writes the item of a caller, if it is closed and asked for.
func (s *Server) lookupOne(out *writer, q *query, addr netip.Addr) {
	if !q.fits(s.prefix(addr)) {
		return
	}
	now := s.options.Clock().UnixNano()
	ds := s.options.Board.Of(schemas.Caller{Kind: schemas.KindIP, ID: addr.String()})
	best, _ := longestInForce(ds, now, s.options.MinClosure, s.rules(q.rules))
	if best.until-now >= int64(shortestDuration) {
		s.writeItem(out, q, item{s.started, addr, best.until, best.rule}, now)
	}
}

// lookupAll writes all items that are asked for.
func (s *Server) lookupAll(ctx context.Context, out *writer, q *query) {
	v, ok := s.filled(ctx, q.rules)
	if !ok {
		return // the bouncer has gone away
	}
	v.advance(s.options.Clock())
	for from, more := int32(0), true; more && !out.failed; from += pieces {
		now := s.options.Clock().UnixNano()
		more = v.piece(from, func(slot int32) {
			e := v.table.at(slot)
			if !e.closed || e.until-now < int64(shortestDuration) {
				return
			}
			if i := itemOf(e); q.fits(s.prefix(i.addr)) {
				s.writeItem(out, q, i, now)
			}
		})
		if len(out.buffer) >= flushAt {
			out.flush()
		}
	}
	out.endList()
}

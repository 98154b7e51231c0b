package simulate

import (
	"time"
)

// peer is another limiter in its simplest form: it counts in one place, and gates know each count one lag later. It reserves something for a
// request at its arrival, and counts what the request cost when it ends.
type peer struct {
	name    string
	reserve func(r *Request) int64 // what a request counts until it ends
	atEnd   bool                   // the cost counts in the window in which the request ends; otherwise in that in which it arrived
	flights bool                   // it counts requests in flight, in no window

	m     *measure
	total map[peerKey]int64
}

// peerKey is what a peer counts in: a caller, and a window by its start.
type peerKey struct {
	id    string
	start int64
}

// peersOf returns the limiters that a rule about requests that last is compared with.
func peersOf(m *measure) (list []*peer) {
	flat := func(amount int64) func(*Request) int64 { return func(*Request) int64 { return amount } }
	switch {
	case m.flies():
		list = []*peer{{name: "oracle", reserve: flat(1), flights: true}}
	case m.aligned:
		list = []*peer{
			{name: "check and report", reserve: flat(0), atEnd: true},
			{name: "flat hold 0", reserve: flat(0)},
			{name: "flat hold 2000", reserve: flat(2000)},
			{name: "flat hold 5000", reserve: flat(5000)},
			{name: "oracle", reserve: func(r *Request) int64 { return r.Cost }},
		}
	}
	return list
}

// key returns what a time counts in.
func (p *peer) key(id string, at int64) peerKey {
	if p.flights {
		return peerKey{id: id}
	}
	return peerKey{id, p.m.periodOf(at)}
}

// arrived counts an arrival.
func (p *peer) arrived(id string, r *Request) { p.total[p.key(id, r.At)] += p.reserve(r) }

// ended counts an end.
func (p *peer) ended(id string, r *Request) {
	at := r.At
	if p.atEnd {
		at += int64(r.Duration)
	}
	p.total[p.key(id, r.At)] -= p.reserve(r)
	if !p.flights {
		p.total[p.key(id, at)] += r.Cost
	}
}

// run simulates the peer alone, and measures it by books that are empty.
func (p *peer) run(c *Config, m *measure, traffic traffic, end int64) Limiter {
	p.m, p.total = m, make(map[peerKey]int64)
	line, lag := newTimeline(), int64(c.Lag.Mean())
	line.now = c.Start
	for q := (Request{}); traffic.next(&q) && q.At <= end; {
		line.advance(q.At)
		s := p.m.subject(q.Callers[0].ID)
		admitted := p.total[p.key(s.id, q.At)] < s.limit
		p.m.last(s, &q, q.At, admitted)
		traffic.decided(&q, admitted)
		if admitted {
			own := q
			line.at(q.At+lag, func() { p.arrived(s.id, &own) })
			line.at(q.At+int64(q.Duration)+lag, func() { p.ended(s.id, &own) })
		}
	}
	l := Limiter{Name: p.name}
	for _, s := range p.m.order {
		p.m.close(s, end)
		l.tally.last(p.m, s, &Result{start: c.Start, from: c.Start + int64(c.Warmup)}, end)
	}
	return l
}

// runPeers adds to the result of a run how other limiters hold its rules about requests that last.
func (s *Scenario) runPeers(o *Options, c *Config, result *Result, length time.Duration) {
	for i := range result.Rules {
		rr := &result.Rules[i]
		for _, r := range c.Rules.Rules {
			m := newMeasure(c, r)
			if r.Name != rr.Rule || m.lasts == nil {
				continue
			}
			for _, p := range peersOf(m) {
				rr.Limiters = append(rr.Limiters, p.run(c, newMeasure(c, r), s.traffic(o, c.Servers), c.Start+int64(length)))
			}
		}
	}
	result.compute()
}

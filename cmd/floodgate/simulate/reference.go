package simulate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// reference counts what was admitted by rule, caller and window, and decides on each request at once by the rules' own
// algorithms and by exact logs.
type reference struct {
	measure []*measure // one for each enforcing rule with a limit
	matched []match    // of the present request
}

// match is a rule that counts the present request, for one of its callers.
type match struct {
	m *measure
	s *subject
}

// measure is what one rule counts.
type measure struct {
	rule     *rules.Rule
	exact    window.Algorithm // nil if the limit is too large for a log
	aligned  bool             // periods are the rule's windows
	lasts    *lastsMeasure    // of a rule about requests that last; nil for all others
	subjects map[string]*subject
	order    []*subject // in the order in which they came
}

// subject is one caller of a rule.
type subject struct {
	id        string
	limit     int64
	unlimited bool
	sync      window.State // of the rule's own algorithm
	closure   policy.Closure
	exact     window.State      // of the log
	full      bool              // the synchronous limiter has closed it: it is no innocent
	bucket    window.State      // of what was admitted, for an algorithm without windows
	periods   []period          // in order of time
	bounds    map[int64]float64 // that decisions stated, by when their period begins
	admitted  []weighted        // if the windows move
	requests  int64
	blocked   int64
	flights   flights // of a rule about requests in flight
	clients   []int64 // what the admitted requests of each client cost, after the warm-up
}

// weighted is an admitted request.
type weighted struct{ at, weight int64 }

// period is one window, or for a window that moves one stretch of its length.
type period struct {
	start                     int64
	demand, ours, sync, exact int64
	peak                      int64 // the largest weight of a window that ends in the period
}

func newReference(c *Config) *reference {
	ref := &reference{}
	log, _ := window.KindOf("log")
	for _, r := range c.Rules.Rules {
		if r.Mode != schemas.ModeEnforce || r.Pool != nil {
			continue
		}
		m := newMeasure(c, r)
		if m.lasts == nil && r.Limit <= log.MaxLimit && !m.endless() {
			m.exact = window.NewLog(time.Duration(r.Window.Length(c.Start)))
		}
		ref.measure = append(ref.measure, m)
	}
	return ref
}

func newMeasure(c *Config, r *rules.Rule) *measure {
	m := &measure{rule: r, lasts: newLastsMeasure(c, r), subjects: make(map[string]*subject)}
	m.aligned = !m.flies() && strings.HasPrefix(r.Window.Shape(), window.OnACalendar+"/")
	return m
}

func (m *measure) endless() bool { return m.rule.Window.Traits().Endless }

// subject returns the counts of a caller.
func (m *measure) subject(id string) *subject {
	s := m.subjects[id]
	if s == nil {
		s = &subject{id: strings.Clone(id)}
		s.limit, s.unlimited = fold.LimitFor(m.rule, id)
		m.subjects[s.id] = s
		m.order = append(m.order, s)
	}
	return s
}

// request counts a request that came to a server of ours, which has decided on it.
func (ref *reference) request(r *Request, at *server, v *gate.Verdict) {
	ref.matched = ref.matched[:0]
	closed := false
	for i := range at.callers.Len() {
		kind, id, _ := at.callers.At(i)
		e := schemas.Entry{Time: r.At, Kind: kind, ID: id, Resource: r.Resource, Count: 1}
		for _, m := range ref.measure {
			if m.lasts != nil {
				if m.rule.Kind == kind {
					m.last(m.subject(id), r, at.clock(), !v.Closed)
				}
				continue
			}
			if m.rule.Kind == kind && m.rule.Matches(&e) {
				s := m.subject(id)
				ref.matched = append(ref.matched, match{m, s})
				closed = closed || s.closure.ClosedAt(r.At)
			}
		}
	}
	for _, x := range ref.matched {
		x.m.count(x.s, r.At, at.clock(), !v.Closed, !closed)
	}
}

// count counts a request under one rule: at is the time, and clock what the server's clock showed.
func (m *measure) count(s *subject, at, clock int64, ours, sync bool) {
	s.requests++
	p := s.period(m.periodOf(clock))
	p.demand++
	if ours {
		p.ours++
		m.admitted(s, p, clock, 1)
	} else {
		s.blocked++
	}
	p = s.period(m.periodOf(at))
	if sync {
		p.sync++
	}
	m.step(s, at, sync)
	if m.exact == nil {
		return
	}
	if count := m.exact.View(s.exact, s.limit, at); s.unlimited || !count.Full(at) {
		s.exact, _ = m.exact.Add(s.exact, s.limit, at, 1)
		p.exact++
	}
}

// admitted notes what a window of the rule's length holds after a request was admitted.
func (m *measure) admitted(s *subject, p *period, clock, weight int64) {
	switch {
	case m.aligned:
		p.peak = p.ours
	case m.endless():
		var count window.Count
		s.bucket, count = m.rule.Window.Add(s.bucket, s.limit, clock, weight)
		p.peak = max(p.peak, count.Total)
	default:
		s.admitted = append(s.admitted, weighted{clock, weight})
	}
}

// step counts a request in the synchronous limiter.
func (m *measure) step(s *subject, at int64, admitted bool) {
	if !admitted && !m.rule.CountBlocked {
		return
	}
	var count window.Count
	s.sync, count = m.rule.Window.Add(s.sync, s.limit, at, 1)
	if s.unlimited {
		return
	}
	s.closure, _ = policy.Step(m.rule, s.closure, nil, at, count)
	s.full = s.full || s.closure.Nth > 0
}

// periodOf returns the beginning of the period that contains a time.
func (m *measure) periodOf(t int64) int64 {
	if m.aligned {
		return m.rule.Window.View(nil, 1, t).Start
	}
	length := m.length(t)
	return t - (t%length+length)%length
}

// period returns the period of a caller that begins at start. Clocks differ by little, so it is one of the last.
func (s *subject) period(start int64) *period {
	i := len(s.periods)
	for i > 0 && s.periods[i-1].start > start {
		i--
	}
	if i > 0 && s.periods[i-1].start == start {
		return &s.periods[i-1]
	}
	s.periods = slices.Insert(s.periods, i, period{start: start})
	return &s.periods[i]
}

// peaks fills in the peaks of a caller whose window moves: the largest weight of all intervals of the window's length that
// end with a request of the period.
func (m *measure) peaks(s *subject) {
	slices.SortFunc(s.admitted, func(a, b weighted) int { return cmp.Compare(a.at, b.at) })
	from, weight := 0, int64(0)
	for _, x := range s.admitted {
		weight += x.weight
		for s.admitted[from].at <= x.at-m.rule.Window.Length(x.at) {
			weight -= s.admitted[from].weight
			from++
		}
		p := s.period(m.periodOf(x.at))
		p.peak = max(p.peak, weight)
	}
}

package simulate

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// Limiter is how well a limiter holds the costs, or the number in flight, of requests that last: in windows, or in minutes of requests in
// flight. Shares are of the limit, as in RuleResult.
type Limiter struct {
	Name      string    `json:"name"`
	Overshoot Quantiles `json:"overshoot"`         // of the windows after the warm-up; by the most in flight in a minute
	Changed   Quantiles `json:"overshoot_changed"` // of the windows in which the scenario changes something
	Warmup    Quantiles `json:"overshoot_warmup"`  // of the windows that begin during the warm-up
	InTime    Quantiles `json:"overshoot_in_time"` // of the seconds after the warm-up, by the number in flight; of rules about that only
	Used      float64   `json:"used"`              // of the limit, or of what is asked for if that is less
	Refused   float64   `json:"refused_unfilled"`  // of the cost of windows in which less than the limit is asked for
	Fairness  float64   `json:"fairness"`          // Jain's index of what clients get, if there are several: 1 if all get the same

	tally tally // but that of floodgate is the rule's
}

// class says how a window is measured.
type class uint8

const (
	ordinary class = iota
	changed        // costs have changed: see Limiter.Changed
	ignored
)

// lastsMeasure is what measure needs for a rule about requests that last.
type lastsMeasure struct {
	inFlight bool
	start    int64 // Unix nanoseconds: of the run, and of what is measured
	from     int64
	class    func(since time.Duration) class
}

// lastingTally holds the sums of a Limiter.
type lastingTally struct {
	changed                []float64
	used, wanted           float64
	inFlight               []int64 // for how many nanoseconds there were so many in flight, after the warm-up
	limit                  int64   // of those
	refused, askedUnfilled float64
	fairness               []float64 // of each run
}

// newLastsMeasure returns nil if the rule is not about requests that last.
func newLastsMeasure(c *Config, r *rules.Rule) *lastsMeasure {
	inFlight := r.Measure == rules.InFlight
	if !c.Holds || !inFlight && r.Measure != rules.Cost {
		return nil
	}
	return &lastsMeasure{inFlight: inFlight, start: c.Start, from: c.Start + int64(c.Warmup), class: c.class}
}

// flies reports whether the rule counts requests in flight. Its periods are minutes then.
func (m *measure) flies() bool { return m.lasts != nil && m.lasts.inFlight }

// last counts a request that lasts under one rule, at the time that its server's clock shows.
func (m *measure) last(s *subject, r *Request, clock int64, ours bool) {
	s.requests++
	if !ours {
		s.blocked++
	}
	if m.flies() {
		m.fly(s, r, ours)
	} else {
		p := s.period(m.periodOf(clock))
		p.demand += r.Cost
		if ours {
			p.ours += r.Cost
			m.admitted(s, p, clock, r.Cost)
		}
		s.full = s.full || p.demand >= s.limit
	}
	if r.At < m.lasts.from {
		return
	}
	for len(s.clients) <= r.Client {
		s.clients = append(s.clients, 0)
	}
	if ours {
		s.clients[r.Client] += r.Cost
	}
}

// close computes what is known of a caller only at the end of the run.
func (m *measure) close(s *subject, end int64) {
	switch {
	case m.flies():
		m.flyTo(s, end)
	case !m.aligned && !m.endless():
		m.peaks(s)
	}
}

// length returns how long the period is that a time falls into.
func (m *measure) length(t int64) int64 {
	if m.flies() {
		return int64(time.Minute)
	}
	return m.rule.Window.Length(t)
}

// last adds the periods of a caller that lie in the run as a whole.
func (t *tally) last(m *measure, s *subject, r *Result, end int64) {
	for i := range s.periods {
		p := &s.periods[i]
		length := m.length(p.start)
		if p.start+length > end {
			break
		}
		over := max(0, float64(p.peak-s.limit)/float64(s.limit))
		class := ordinary
		if m.lasts.class != nil {
			class = m.lasts.class(time.Duration(p.start - m.lasts.start))
		}
		switch {
		case p.start < r.from:
			t.warmup = append(t.warmup, over)
		case class == changed:
			t.lasting.changed = append(t.lasting.changed, over)
		case class == ordinary:
			t.period(p, over, float64(s.limit), float64(s.limit))
			t.bounds.period(s, p.start, over)
			t.lasting.period(p, s.limit)
		}
	}
	for n, length := range s.flights.lengths {
		t.lasting.inFlight, t.lasting.limit = addAt(t.lasting.inFlight, n, length), s.limit
	}
	if len(s.clients) > 1 {
		t.lasting.fairness = append(t.lasting.fairness, jain(s.clients))
	}
}

// period adds a period after the warm-up.
func (t *lastingTally) period(p *period, limit int64) {
	t.used += float64(min(p.ours, limit))
	t.wanted += float64(min(p.demand, limit))
	if p.demand < limit {
		t.refused += float64(p.demand - p.ours)
		t.askedUnfilled += float64(p.demand)
	}
}

func (t *lastingTally) add(o *lastingTally) {
	t.changed, t.fairness = append(t.changed, o.changed...), append(t.fairness, o.fairness...)
	t.used, t.wanted = t.used+o.used, t.wanted+o.wanted
	for n, length := range o.inFlight {
		t.inFlight, t.limit = addAt(t.inFlight, n, length), o.limit
	}
	t.refused, t.askedUnfilled = t.refused+o.refused, t.askedUnfilled+o.askedUnfilled
}

// compute sets what follows from a tally.
func (l *Limiter) compute(t *tally) {
	x := &t.lasting
	l.Overshoot, l.Changed, l.Warmup = quantilesOf(t.over), quantilesOf(x.changed), quantilesOf(t.warmup)
	l.Used, l.Refused, l.Fairness = ratio(x.used, x.wanted), ratio(x.refused, x.askedUnfilled), quantilesOf(x.fairness).Mean
	if len(x.inFlight) > 0 {
		l.InTime, l.Used = x.flights()
		l.Refused = 0
	}
}

// jain returns the fairness index of Jain, Chiu and Hawe (1984): 1 if all get the same, and 1/n if one of n gets all.
func jain(got []int64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range got {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	return ratio(sum*sum, float64(len(got))*squares)
}

package simulate

import "github.com/509da70d/floodgate/schemas"

// Bounds says how often callers exceeded the overshoot that their decisions named as a bound. By that evidence, at most one close in 200
// exceeds it. Bounds is about the periods after the warm-up in which a closure or a share began.
type Bounds struct {
	Closes   int64   `json:"closes"` // periods with a bound
	Exceeded int64   `json:"exceeded"`
	Mean     float64 `json:"mean"` // bound, as a share of the limit

	sum float64
}

// foreseen notes the bounds that decisions state. The newest decision about a period is the one that counts.
func (ref *reference) foreseen(decisions []schemas.Decision) {
	for i := range decisions {
		d := &decisions[i]
		if d.Evidence.Bound == 0 {
			continue
		}
		for _, m := range ref.measure {
			if s := m.subjects[d.Caller.ID]; s != nil && m.rule.Name == d.Rule && m.rule.Kind == d.Caller.Kind {
				m.foresee(s, d)
			}
		}
	}
}

// foresee notes the bound of one decision.
func (m *measure) foresee(s *subject, d *schemas.Decision) {
	if s.bounds == nil {
		s.bounds = make(map[int64]float64)
	}
	for _, span := range [...]schemas.Span{{CloseAt: d.CloseAt, Until: d.Until}, d.Next} {
		if span.Until > span.CloseAt {
			s.bounds[m.periodOf(span.CloseAt)] = d.Evidence.Bound
		}
	}
	if d.Share != nil {
		s.bounds[m.periodOf(d.Share.From)] = d.Evidence.Bound
	}
}

// period compares the overshoot of a period with its bound, if it has one.
func (b *Bounds) period(s *subject, start int64, over float64) {
	bound, ok := s.bounds[start]
	if !ok {
		return
	}
	b.Closes++
	b.sum += bound
	if over > bound {
		b.Exceeded++
	}
}

// add adds what another run has measured.
func (b *Bounds) add(o *Bounds) {
	b.Closes, b.Exceeded, b.sum = b.Closes+o.Closes, b.Exceeded+o.Exceeded, b.sum+o.sum
}

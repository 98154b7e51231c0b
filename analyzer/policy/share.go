package policy

import (
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Sharing is the state of a caller that may get a share: what it demands, and the newest share that was published. The zero value has
// measured nothing and gives nothing. One goroutine may use a Sharing.
//
// Gates begin to measure a caller's demand when they get its first decision with a share. So the first share only announces: it never comes
// into force. The next one comes into force, because gates have measured by then, and is renewed from then on.
type Sharing struct {
	measured Meter // demand by sub-period, as gates measure it
	asked    Meter // demand by quarters of the window
	admitted admittedByInterval

	from          int64 // when the newest share comes into force
	measuredUntil int64 // the end of the time in which its demand was measured
	next          int64 // when the next share must come into force
	since         int64 // since when permits hold without a gap; never if none do yet
	start         int64 // since when gates measure. Without a share: until when gates may still refuse by the share before
	rest          int64 // nothing is announced before this time
	published     int64 // until when gates hold a closure, during which permits may be left over
	demand        uint32
	length        uint8 // says for how long demand is measured, see measuring; 0: there is no share
	closesInRow   uint8 // how many closes followed each other within a window each; at most 2
	shortShares   uint8 // shares in a row that were in force for a short time only
	judged        bool  // leftOver has judged the interval before the newest
}

const never = math.MaxInt64

const (
	// renewal is the shortest time between two renewals of a share.
	renewal = int64(time.Second)
	// minHold is how long a share holds at least if it is not renewed.
	minHold = 6 * int64(time.Second)
	// minMeasured is the shortest time in which demand is measured. subPeriods is the number of its parts.
	minMeasured = int64(time.Second)
	subPeriods  = 4
	// longestMeasured is Sharing.length of 17 hours.
	longestMeasured = 17
	// publishAhead is how much earlier than necessary a share is published: an analyzer decides only when an entry of the caller comes.
	publishAhead = 20 * int64(time.Millisecond)
	// A share that lasts fewer renewals than shortLived shows that traffic moves between servers faster than shares follow. longestRest
	// bounds how often the rest after such a share is doubled.
	shortLived  = 3
	longestRest = 4
	// floods is the ratio of demand to limit, in thousandths, from which on a caller gets a share after its first close.
	floods = 4000
	// minSilence is the least silence of a server after which nothing waits for its entries.
	minSilence = 200 * int64(time.Millisecond)
)

// ShareOutlook is the input of a decision about a share. Times are Unix nanoseconds of log time.
type ShareOutlook struct {
	Rule    *rules.Rule
	Limit   int64
	State   window.State
	Closure Closure
	Rate    int64 // thousandths of weight a second
	Now     int64
	AsOf    int64 // the entries before this time have been folded, on average
	Heard   int64 // the entries of all servers before this time have been folded
	Gates   int64 // servers that have sent entries recently
	Lag     Lag
	LagCap  int64 // nothing is decided above this lag
}

// lead returns the time after which a decision almost certainly holds at gates.
func (o *ShareOutlook) lead() int64 { return o.Lag.Mean + o.Lag.Margin() }

// Silence returns how long a server must be silent until nothing waits for its entries any more.
func (l Lag) Silence() int64 { return max(minSilence, l.Mean+l.Margin()) }

// Step gives the caller a share, renews its share, or ends it. It reports whether gates must learn of that: then Share returns the new
// state.
func (s *Sharing) Step(o *ShareOutlook) bool {
	p := PermitsOf(o.Rule, o.Limit)
	if o.Lag.Mean > o.LagCap || p.Whole == 0 || o.Gates == 0 {
		return false
	}
	if s.length > 0 && s.until(p) <= o.Now {
		s.stop() // nobody could renew it, and it has ended by itself
	}
	switch {
	case s.length == 0:
		if !s.deserves(o, p) {
			return false
		}
		s.announce(o, p)
		return true
	case !s.keeps(o, p):
		return s.end(o)
	case s.leftOver(o, p):
		s.restAfter(o, p)
		return s.end(o)
	}
	return s.renew(o, p)
}

// restAfter lets a caller that left permits rest for two renewals: until then it gets no share. The rest doubles each time that the
// share was in force for fewer renewals than shortLived.
func (s *Sharing) restAfter(o *ShareOutlook, p Permits) {
	every := p.renewal()
	if o.Now-s.since < shortLived*every {
		s.shortShares = min(s.shortShares+1, longestRest)
	} else {
		s.shortShares = 0
	}
	s.rest = integer.Add(o.Now, saturatingMul(2*every, 1<<s.shortShares))
}

// stop ends the share.
func (s *Sharing) stop() { s.length, s.since = 0, never }

// end ends the share early. It reports whether gates must learn of that. They need not if the share only announces, because such a share
// ends by itself.
func (s *Sharing) end(o *ShareOutlook) (news bool) {
	news = s.since != never
	s.stop()
	s.start = integer.Add(o.Now, 2*o.lead())
	return news
}

// measuring returns the length of the time in which demand is measured, in nanoseconds: minMeasured doubled length − 1 times. It is a
// multiple of subPeriods whole ticks of recorders.
func (s *Sharing) measuring() int64 { return minMeasured << (s.length - 1) }

// deserves reports whether a caller without a share gets one.
func (s *Sharing) deserves(o *ShareOutlook, p Permits) bool {
	if s.closesInRow == 0 || o.Now < s.rest || o.Now >= integer.Add(o.Closure.Until, o.Rule.Window.Length(o.Now)) {
		return false
	}
	if s.closesInRow < 2 && s.ratio(o, p) < floods {
		return false
	}
	slot := o.Rule.Window.Traits().Slot
	return (p.Aligned || slot <= 4*o.Lag.Mean) && weightIn(s.leastDemand(o, p), o.Lag.Mean) >= max(saturatingMul(p.limit, 10), 1000) && s.spendConfidence(o, p) >= 4_000_000
}

// keeps reports whether a caller keeps its share. It uses the demand of half a window: that of a few ticks varies too much.
func (s *Sharing) keeps(o *ShareOutlook, p Permits) bool {
	calm := *o
	calm.Rate = s.halfWindowDemand(o, p)
	return weightIn(calm.Rate, o.Lag.Mean) >= saturatingMul(p.limit, 5) && s.spendConfidence(&calm, p) >= 1_000_000 && s.ratio(&calm, p) >= 900
}

// halfWindowDemand returns the mean demand of half a window, in thousandths of weight a second.
func (s *Sharing) halfWindowDemand(o *ShareOutlook, p Permits) int64 {
	return s.asked.rate(max(1, p.window/4), 2, o.AsOf)
}

// leastDemand returns the smallest of three measurements of demand: now, over half a window, and over two windows, in thousandths of weight
// a second.
func (s *Sharing) leastDemand(o *ShareOutlook, p Permits) int64 {
	return min(o.Rate, s.halfWindowDemand(o, p), s.asked.rate(max(1, p.window/4), 7, o.AsOf))
}

// ratio returns the demand as a share of what the limit allows, in thousandths.
func (s *Sharing) ratio(o *ShareOutlook, p Permits) int64 {
	allowed := integer.MulDiv(saturatingMul(p.limit, 1000), int64(time.Second), p.window)
	return integer.MulDiv(s.leastDemand(o, p), 1000, max(1, allowed))
}

// spendConfidence returns a measure of how surely each gate spends its part: (ρ − 1)² K / N in millionths. ρ is the ratio, K the permits of
// a period, and N the number of gates. The part of a gate is K / N, and its demand is ρ K / N with a deviation of the root of that.
func (s *Sharing) spendConfidence(o *ShareOutlook, p Permits) int64 {
	over := min(max(s.ratio(o, p)-1000, 0), 1_000_000)
	return integer.MulDiv(over*over, p.Whole, o.Gates)
}

// announce gives the first share, which never comes into force: gates begin to measure when they get it.
func (s *Sharing) announce(o *ShareOutlook, p Permits) {
	lead := o.lead()
	s.length = measuredFor(o, p, s.ratio(o, p))
	s.measured = Meter{}
	s.start = integer.Add(o.Now, lead)
	first := up(s.start, s.measuring()/subPeriods) + s.measuring()
	s.measuredUntil, s.demand, s.since = first, 1, never
	s.next = up(integer.Add(first, 2*lead), p.Period)
	s.from = integer.Add(s.next, 2*p.renewal())
}

// measuredFor returns Sharing.length for a caller. The time must be so long that gates still remember the demand when they get the next
// share. And each gate must know its part as precisely as it will spend it.
func measuredFor(o *ShareOutlook, p Permits, ratio int64) uint8 {
	length, doubled, enough := minMeasured, uint8(1), 4*o.lead()
	over := min(max(ratio-1000, 0), 1_000_000)
	for doubled < longestMeasured &&
		(length < enough || length < p.Period && integer.MulDiv(over*over, weightIn(o.Rate, length)/1000, o.Gates) < 16_000_000) {
		length, doubled = 2*length, doubled+1
	}
	return doubled
}

// renew decides on the next share.
func (s *Sharing) renew(o *ShareOutlook, p Permits) bool {
	lead := o.lead()
	if integer.Add(o.Now, lead+publishAhead) < s.next {
		return false
	}
	length := s.measuring()
	part := length / subPeriods
	end := integer.FloorDiv(o.Heard, part) * part
	if end-length < s.start || o.Now+lead-end >= length {
		return false // gates have not measured the demand, or do not remember it
	}
	demand, ok := s.measured.sum(part, end-length, end)
	if !ok || demand == 0 {
		return false
	}
	from := s.next
	if integer.Add(o.Now, o.Lag.Mean) > from {
		from = up(o.Now+lead, p.Period)
	}
	if s.since == never {
		if !p.fits(o, from) {
			s.next = up(o.Now+lead, p.Period)
			return false
		}
		s.since = from
	}
	s.from, s.measuredUntil, s.demand, s.next = from, end, uint32(min(p.demand(demand), math.MaxUint32)), from+p.renewal() // > 0
	return true
}

// leftOver reports whether more than 10 % of the permits since the last renewal were left.
func (s *Sharing) leftOver(o *ShareOutlook, p Permits) bool {
	every := p.renewal()
	if s.judged || o.Heard < s.admitted.number*every {
		return false
	}
	s.judged = true
	return (s.admitted.number-1)*every >= max(s.since, s.published) && int64(s.admitted.before) < integer.MulDiv(p.limit, 9*every, 10*p.span)
}

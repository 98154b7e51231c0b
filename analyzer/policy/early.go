package policy

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Flush is how long a server collects requests at most before it sends them, unless it is configured otherwise. An analyzer reads about as
// often.
const Flush = 5 * time.Millisecond

// MaxHold is the longest that an early close lasts.
const MaxHold = 2 * time.Second

// Lag is the measured time from a request until a decision about it holds at a gate, in nanoseconds. Mean is the median of the
// measurements. Deviation is the median of their distances from Mean.
type Lag struct{ Mean, Deviation int64 }

// Margin is added to the lag, so that a decision almost certainly holds by then.
func (l Lag) Margin() int64 { return 2*l.Deviation + 2*int64(Flush) }

// Hold returns how long an early close lasts, in nanoseconds, unless it is confirmed. length is that of the window.
func (l Lag) Hold(length int64) int64 {
	return max(0, min(l.Mean+l.Mean/2+l.Margin(), int64(MaxHold), length/2))
}

// Announced is the last early close of a caller that was published. The zero value is none.
type Announced struct {
	CloseAt, Until int64 // Unix nanoseconds; Until is 0 if there is none that may still be confirmed
	Rest           int64 // Unix nanoseconds: nothing is predicted before this time, …
	Demand         int64 // … unless the demand is more than a quarter above this, in thousandths a second
}

// Holds reports whether an early close was announced that is not confirmed, and not over at t.
func (a *Announced) Holds(t int64) bool { return a.Until > t }

// Outlook is the input of a prediction. Times are Unix nanoseconds of log time.
type Outlook struct {
	Rule    *rules.Rule
	Limit   int64
	State   window.State // what a synchronous limiter would hold: admitted weight, and early-blocked weight
	Closure Closure
	Pace    *Pace
	Now     int64
	Lag     Lag
	LagCap  int64 // nothing is predicted if Mean + Deviation of the lag is more
	Room    window.State
}

// asOf returns the time up to which the window is complete. It is before log time, which is the time of the newest entry: entries of other
// servers come later.
func (o *Outlook) asOf() int64 { return o.Now - o.Pace.Age() - int64(Flush)/2 }

// hold is how long an early close lasts. Where the cap of the lag was raised above a quarter of the window, it lasts for one and a
// half lags, and for two caps at most. With a shorter hold it would often be over before gates hear of it.
func (o *Outlook) hold(length int64) int64 {
	if o.LagCap <= length/4 {
		return o.Lag.Hold(length)
	}
	return max(0, min(o.Lag.Mean+o.Lag.Mean/2+o.Lag.Margin(), integer.Add(o.LagCap, o.LagCap)))
}

// Predict decides whether an early close must be published now. next is what is announced after the call, and publish reports whether gates
// must learn of it. The caller's Pace must have been advanced to Now.
func (o *Outlook) Predict(last Announced) (next Announced, publish bool) {
	length, asOf := o.Rule.Window.Length(o.Now), o.asOf()
	rate, jumps := o.rate(last)
	hold := o.hold(length)
	if jumps {
		hold -= min(hold, o.Lag.Mean/2)
	}
	if last.Until != 0 && last.Until <= asOf {
		last = o.settle(last, rate, hold)
	}
	if integer.Add(o.Lag.Mean, o.Lag.Deviation) > o.LagCap || o.Now < last.Rest && rate <= integer.Add(last.Demand, last.Demand/4) || !o.worth(rate, last) {
		return last, false
	}
	from, to := asOf, max(asOf+o.Lag.Mean+o.Lag.Margin(), o.Now+o.Lag.Mean+2*o.Lag.Deviation)
	if o.Closure.before(o.Now) {
		if from = o.Closure.Until; from < to {
			to = max(to, integer.Add(from, reopensLate(o.Closure)))
		}
	}
	if from >= to || !o.reaches(from, to, rate) {
		return last, false
	}
	c, ok, room := Cross(o.Rule, o.State, o.Limit, from, to, rate, o.Room)
	o.Room = room
	if o.Closure.before(o.Now) {
		c.CloseAt = max(c.CloseAt, integer.Add(o.Closure.Until, 1))
	}
	next = Announced{CloseAt: c.CloseAt, Until: min(integer.Add(c.CloseAt, hold), c.Until), Rest: last.Rest, Demand: rate}
	inForce := o.Now + o.Lag.Mean // when gates will have the decision
	if !ok || next.Until <= max(next.CloseAt, inForce) || o.byChance(c, rate) {
		return last, false
	}
	if last.Until != 0 && !o.news(last.CloseAt, next.CloseAt, rate, inForce) {
		return last, false
	}
	return next, true
}

// rate returns the demand. A jump that fills the window within one lag counts at once, because a good measurement would come too
// late. It does not count while an early close is announced or the caller rests after one: bursts that do not fill the window would
// close the caller for longer.
func (o *Outlook) rate(last Announced) (rate int64, jumps bool) {
	rate = o.Pace.Rate()
	if o.Closure.before(o.Now) || last.Until != 0 || o.Now < last.Rest {
		return rate, false
	}
	missing := o.Rule.Window.Capacity(o.Limit) - o.Rule.Window.View(o.State, o.Limit, o.Now).Total
	if jump := o.Pace.Jump(o.Now, o.Lag.Mean); jump > rate && weightIn(jump, o.Lag.Mean)/1000 >= missing {
		return jump, true
	}
	return rate, false
}

// byChance reports whether a close is so near to the end of its window that it is chance whether the window becomes full before it ends. A
// bucket has no such end.
func (o *Outlook) byChance(c Crossing, rate int64) bool {
	return weightIn(rate, c.Until-c.CloseAt) < deviation(rate, o.Lag.Mean) && !o.Rule.Window.Traits().Endless
}

// reopensLate returns the longest delay with which gates reopen after a closure, if they know of no later one (see schemas/DECISIONS.md,
// Jitter). Gates must learn of a close that is predicted for that time before they reopen.
func reopensLate(c Closure) int64 {
	const from, longest = 10 * time.Second, 10 * time.Second
	length := c.Until - c.CloseAt
	switch {
	case length < 0: // it overflowed
		return int64(longest)
	case length < int64(from):
		return 0
	}
	return min(length/10, int64(longest))
}

// worth reports whether the weight of one lag is large enough for a prediction: 1 % of the limit, and two requests. For a caller that was
// predicted before, 0.5 % and one request are enough, so that a steady caller near the bound is not predicted in one second and left out in
// the next. One request would be too low a bound for the first prediction: the rate is measured over a few lags only, and by chance each
// caller of a fleet would be above that bound at some time.
func (o *Outlook) worth(rate int64, last Announced) bool {
	comes, capacity := weightIn(rate, o.Lag.Mean), o.Rule.Window.Capacity(o.Limit)
	if last.Demand > 0 {
		return comes >= 1000 && 2*comes >= 10*capacity
	}
	return comes >= 2000 && comes >= 10*capacity
}

// reaches reports whether the window can be full before to at all. It is a quick upper bound: it assumes that nothing leaves the window.
func (o *Outlook) reaches(from, to, rate int64) bool {
	total := o.Rule.Window.View(o.State, o.Limit, from).Total
	return weightIn(rate, to-from)/1000 >= o.Rule.Window.Capacity(o.Limit)-total-1
}

// news reports whether an announced close must be announced again because its time has moved. The weight that comes between the two times
// must exceed each of these: 0.5 % of the limit, twice the deviation of the weight of one lag, and one request. And gates must get the
// decision before the later of the two times.
func (o *Outlook) news(before, now, rate, inForce int64) bool {
	if max(before, now) <= inForce {
		return false
	}
	return weightIn(rate, max(now-before, before-now)) > o.tolerance(rate)
}

// tolerance is the error of a prediction that does not matter, in thousandths of weight.
func (o *Outlook) tolerance(rate int64) int64 {
	return max(5*o.Rule.Window.Capacity(o.Limit), 2*deviation(rate, o.Lag.Mean), 1000)
}

// deviation returns the standard deviation of the weight that comes in a time at a rate, if it comes at random, in thousandths.
func deviation(rate, length int64) int64 { return rootOfProduct(weightIn(rate, length), 1000) }

// settle ends an early close that was not confirmed. If the window stayed far below the limit, nothing is predicted for twice the length of
// such a close.
func (o *Outlook) settle(last Announced, rate, hold int64) Announced {
	missing := o.Rule.Window.Capacity(o.Limit) - o.Rule.Window.View(o.State, o.Limit, last.Until-1).Total
	if missing > o.tolerance(max(rate, last.Demand))/1000 {
		last.Rest = integer.Add(last.Until, 2*hold)
	}
	last.CloseAt, last.Until = 0, 0
	return last
}

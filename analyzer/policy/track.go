package policy

import (
	"math"
	"math/bits"

	"github.com/509da70d/floodgate/analyzer/integer"
)

// Pace measures the demand of one caller under one rule: the weight of its requests, admitted and blocked, by log time. It counts in
// integers, so that every processor measures the same. The zero value has measured nothing. One goroutine may use a Pace.
//
// Its counters decay with log time. The slow one has a time constant of four lags, the fast one of half a lag, the newest one of a quarter
// of a lag. The faster a counter is, the sooner it sees a jump, and the noisier it is. Weight counts at the time when it is folded, not at
// its own time: otherwise entries that other servers have not reported yet would look like a pause.
type Pace struct {
	tick    int64  // of log time: the tick that pending and late are about
	pending uint32 // weight in this tick, which is not over
	newest  uint32 // weight · newestUnit: over as many ticks as fast, but at most the newest counter's time constant
	late    int64  // Σ weight · age of this tick's entries

	fast, slow decaying
	aged       int64 // Σ weight · age, decaying like slow
}

// decaying is a sum of weight that loses a part in each tick. ticks decays in the same way, so that weight / ticks is a mean.
type decaying struct {
	weight int64 // · weightUnit
	ticks  int64 // · tickUnit; 0 is no tick yet
}

const (
	paceTick   = 10_000_000 // nanoseconds: recorders merge entries within such a time (schemas.MergeTick)
	weightUnit = 1 << 12
	newestUnit = 1 << 8
	tickUnit   = 1 << 8
	maxSum     = math.MaxInt64 / 4
	factorUnit = 1 << 32

	// minSlow is the smallest time constant of the slow counter, in ticks. With a smaller one it holds a few merged entries only.
	minSlow = 8

	// maxAge bounds the age of one entry, in microseconds: older ones come from a queue that has stood still, not from another
	// clock.
	maxAge = 1_000_000

	// fastEnough is how many requests the fast counter must hold before a rise counts.
	fastEnough = 4

	// fastApart and newestApart say how far the fast and the newest counter must be from the slow one: squares of numbers of standard
	// deviations of a Poisson stream, 3 and 12.
	fastApart, newestApart = 9, 144

	// perSecond turns weightUnits by tickUnits into thousandths of weight a second.
	perSecond = 1000 * (1_000_000_000 / paceTick) * tickUnit / weightUnit // exact
)

// Add notes the weight of an entry that is folded at log time now. The entry is age nanoseconds older, and lag is the lag that is measured
// now.
func (p *Pace) Add(now, age, weight, lag int64) {
	p.Advance(now, lag)
	weight = min(weight, math.MaxUint32)
	p.pending = uint32(min(int64(p.pending)+weight, math.MaxUint32))
	micros := min(max(age, 0)/1000, maxAge)
	p.late = min(integer.Add(p.late, integer.MulDiv(weight, micros, 1)), maxSum)
}

// Advance moves the pace to log time now.
func (p *Pace) Advance(now, lag int64) {
	tick := integer.FloorDiv(now, paceTick)
	if p.started() && tick <= p.tick {
		return
	}
	if !p.started() {
		p.tick, p.fast.ticks, p.slow.ticks = tick, 1, 1
		return
	}
	fast := max(lag/2/(paceTick/tickUnit), tickUnit)
	slow := max(4*lag/(paceTick/tickUnit), minSlow*tickUnit)
	pending := int64(p.pending)
	p.fast.turn(pending, fast)
	newest := decaying{weight: p.newestWeight()}
	newest.turn(pending, newestOf(lag))
	kept := p.slow.turn(pending, slow)
	p.aged = min(scale(p.aged, kept)+p.late, maxSum)
	if empty := tick - p.tick - 1; empty > 0 {
		p.fast.rest(empty, fast)
		newest.rest(empty, newestOf(lag))
		p.aged = scale(p.aged, p.slow.rest(empty, slow))
	}
	p.tick, p.pending, p.late = tick, 0, 0
	p.newest = uint32(min(newest.weight/(weightUnit/newestUnit), math.MaxUint32))
}

// newestWeight returns the weight of the newest counter · weightUnit.
func (p *Pace) newestWeight() int64 { return int64(p.newest) * (weightUnit / newestUnit) }

// newestOf returns the time constant of the newest counter, in tickUnits.
func newestOf(lag int64) int64 { return max(lag/4/(paceTick/tickUnit), tickUnit) }

// started reports whether anything was measured. Counters hold a 256th of a tick then, or more.
func (p *Pace) started() bool { return p.slow.ticks > 0 }

// turn ends a tick with weight in it, under a time constant in tickUnits. It returns what was kept of the sum before.
func (d *decaying) turn(weight, constant int64) int64 {
	kept := int64(factorUnit) - integer.MulDiv(factorUnit, tickUnit, constant)
	d.weight = min(scale(d.weight, kept)+weight*weightUnit, maxSum)
	d.ticks = scale(d.ticks, kept) + tickUnit
	return kept
}

// rest ends n ticks without weight.
func (d *decaying) rest(n, constant int64) int64 {
	kept := power(int64(factorUnit)-integer.MulDiv(factorUnit, tickUnit, constant), n)
	d.weight = scale(d.weight, kept)
	d.ticks = constant - scale(constant, kept) + scale(d.ticks, kept)
	return kept
}

// scale returns x · factor, where factorUnit is one. x ≥ 0.
func scale(x, factor int64) int64 {
	if factor >= factorUnit {
		return x
	}
	return integer.MulDiv(x, factor, factorUnit)
}

// power returns factor to the n-th, n ≥ 1.
func power(factor, n int64) int64 {
	result := int64(factorUnit)
	for ; n > 0 && result > 0; n >>= 1 {
		if n&1 == 1 {
			result = scale(result, factor)
		}
		factor = scale(factor, factor)
	}
	return result
}

// rate returns the mean of a sum in thousandths of weight a second.
func (d *decaying) rate() int64 {
	if d.ticks < tickUnit {
		return 0
	}
	return integer.MulDiv(d.weight, perSecond, d.ticks)
}

// Rate returns the demand in thousandths of weight a second. It is that of the last half lag, if that differs from that of the last four
// lags by more than three standard deviations of a Poisson stream; else it is that of the last four lags. A rise must consist of at least
// fastEnough requests.
func (p *Pace) Rate() int64 {
	if slow := p.slow.rate(); !p.fast.apart(slow, fastApart) {
		return slow
	}
	return p.fast.rate()
}

// Jump returns Rate, or the demand of the last quarter of a lag if that is higher, and exceeds the demand of the last four lags by more
// than twelve standard deviations of a Poisson stream. It also counts the tick that is not over. now is log time, to which the pace was
// advanced, and lag is the lag that is measured then.
func (p *Pace) Jump(now, lag int64) int64 {
	rate, constant := p.Rate(), newestOf(lag)
	passed := min(max(now/(paceTick/tickUnit)-p.tick*tickUnit, 0), tickUnit)
	kept := int64(factorUnit) - integer.MulDiv(factorUnit, passed, constant)
	newest := decaying{
		weight: min(scale(p.newestWeight(), kept)+int64(p.pending)*weightUnit, maxSum),
		ticks:  scale(min(p.fast.ticks, constant), kept) + passed,
	}
	if jump := newest.rate(); jump > rate && newest.apart(p.slow.rate(), newestApart) {
		return jump
	}
	return rate
}

// apart reports whether the rate of d differs from slow, the rate of a Poisson stream, by more than some standard deviations. deviations is
// the square of their number. A rise must consist of at least fastEnough requests.
func (d *decaying) apart(slow, deviations int64) bool {
	rate := d.rate()
	if rate > slow && d.weight < fastEnough*weightUnit {
		return false
	}
	// (rate − slow)² > deviations · σ², where σ² = slow / (2 τ), in thousandths a second and tickUnits.
	off := uint64(min(max(rate-slow, slow-rate), math.MaxInt32))
	hi, lo := bits.Mul64(off*off, uint64(d.ticks)) // ≥ 0
	limitHi, limitLo := bits.Mul64(uint64(slow), uint64(deviations)*1000*(1_000_000_000/paceTick)*tickUnit/2)
	return hi > limitHi || hi == limitHi && lo > limitLo
}

// Age returns how much older than log time entries are when they are folded, as a mean by weight, in nanoseconds. Log time is the time of
// the newest entry; entries of other servers come later, or from clocks that are behind.
func (p *Pace) Age() int64 {
	weight := p.slow.weight/weightUnit + int64(p.pending)
	if weight <= 0 {
		return 0
	}
	return min((p.aged+p.late)/weight, maxAge) * 1000
}

// WeightIn returns the weight that comes in length nanoseconds at a rate in thousandths a second.
func WeightIn(rate, length int64) int64 { return weightIn(rate, length) / 1000 }

// weightIn returns the weight that comes in length nanoseconds at a rate in thousandths a second, in thousandths.
func weightIn(rate, length int64) int64 {
	return integer.MulDiv(max(rate, 0), max(length, 0), 1_000_000_000)
}

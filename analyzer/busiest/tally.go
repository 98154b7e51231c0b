package busiest

import (
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/index"
	"github.com/509da70d/floodgate/schemas/heap"
)

// HalfLife is the time after which a weight counts half, so that a rate is of the last minute or so.
const HalfLife = 20 * time.Second

const (
	maxCallers  = 1024                  // of each tally
	tick        = 10 * time.Millisecond // weights are scaled anew when log time has moved by so much
	rebaseAfter = 256                   // half-lives after which weights are written anew: a float64 holds squares of factors, of up to 2^1023
	timeConst   = float64(HalfLife) / math.Ln2
	deviations  = 2 // in 19 of 20 cases, a value is within so many standard deviations of its mean
)

// Caller is one of the busiest callers. Its true rate lies between Rate − Over − Error and Rate + Error in 19 of 20 cases.
type Caller struct {
	Kind, ID string
	Rate     float64 // requests per second, of the last minute or so
	Over     float64 // by so much the rate may be too high, because the caller has taken the place of another
	Error    float64 // that the sample causes; 0 if all requests were counted
}

// List is some of the busiest callers.
type List struct {
	Callers []Caller
	Absent  float64 // a caller who is not in the list has no higher rate, in 19 of 20 cases
}

// tally is the heaviest callers, of bounded size: Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, 2005) over weights that decay (Cormode, Shkapenyuk, Srivastava, Xu: Forward Decay,
// 2009). Let W be the decayed weight of all callers. Each caller with more than W/maxCallers is in the tally, and no weight is too high
// by more than W/maxCallers, whatever ids others choose: a new caller takes the place of the caller with the least weight, and inherits
// that weight as its excess.
//
// Weight that came at t is kept as weight × 2^((t − base) / HalfLife). So nothing has to be touched for it to decay, and the order
// never changes by itself. newTally makes one. One goroutine may use it.
type tally struct {
	index   index.Index
	callers []caller
	heap    heap.Heap[heavyHitter] // of all callers, the least weight first; apart from them, so that it stays in the cache
	places  [maxCallers]int        // by caller: its place in the heap
	base    int64                  // log time
	factor  float64                // of weight at the time at
	at      int64                  // log time
	begun   int64                  // log time of the first weight
}

// caller is one caller. Its kind and id lie in memory of its own, which the next caller in its place uses again.
type caller struct {
	hash   uint64  // of its id
	excess float64 // what of its weight may be another's
	spread float64 // the variance of the rest: the squares of the weights by which sampled entries stand for others
	name   []byte  // kind, then id
	kind   int     // length of the kind
}

// heavyHitter is the weight and the number of a caller.
type heavyHitter struct {
	weight float64
	number uint32
}

func newTally() *tally {
	t := new(tally)
	t.heap = heap.New(func(a, b *heavyHitter) bool { return a.weight < b.weight }, func(h *heavyHitter, at int) { t.places[h.number] = at })
	return t
}

// add adds weight of a caller at log time now, and its variance: 0 if the weight is exact. The hash is of the caller's id, and nobody else
// can compute it. Callers of one id and of several kinds have one hash; kinds are few.
func (t *tally) add(hash uint64, kind, id string, weight, variance float64, now int64) {
	if t.factor == 0 || now-t.at > int64(tick) {
		t.advance(now)
	}
	weight, variance = weight*t.factor, variance*t.factor*t.factor
	if n, ok := t.find(hash, kind, id); ok {
		t.heap.At(t.places[n]).weight += weight
		t.callers[n].spread += variance
		t.heap.Fix(t.places[n])
		return
	}
	if len(t.callers) < maxCallers {
		n := uint32(len(t.callers)) // < maxCallers
		t.callers = append(t.callers, caller{hash: hash, spread: variance, name: append([]byte(kind), id...), kind: len(kind)})
		t.heap.Add(heavyHitter{weight, n})
		t.index.Add(hash, n, t.home)
		return
	}
	least := t.heap.At(0)
	c := &t.callers[least.number]
	t.index.Remove(least.number, t.home)
	c.hash, c.excess, c.spread = hash, least.weight, variance
	c.name, c.kind = append(append(c.name[:0], kind...), id...), len(kind)
	t.index.Add(hash, least.number, t.home)
	least.weight += weight
	t.heap.Fix(0)
}

// advance moves log time forward.
func (t *tally) advance(now int64) {
	if t.factor == 0 {
		t.base, t.begun = now, now
	}
	t.at = now
	age := float64(now-t.base) / float64(HalfLife)
	if age > rebaseAfter {
		shrink := math.Exp2(-age)
		for i := range t.callers {
			t.heap.At(i).weight *= shrink
			t.callers[i].excess *= shrink
			t.callers[i].spread *= shrink * shrink
		}
		t.base, age = now, 0
	}
	t.factor = math.Exp2(age)
}

func (t *tally) home(n uint32) uint32 { return index.Home(t.callers[n].hash) }

// find returns the number of a caller. It is good until the next add.
func (t *tally) find(hash uint64, kind, id string) (uint32, bool) {
	p := t.index.Probe(hash)
	n, ok := p.Next()
	for ; ok; n, ok = p.Next() {
		if c := &t.callers[n]; c.hash == hash && string(c.name[:c.kind]) == kind && string(c.name[c.kind:]) == id {
			break
		}
	}
	return n, ok
}

// list returns all callers at log time now, in no particular order, as rates. Soon after its begin a tally gives the rates since then. One
// of every entries was sampled, or more of them.
func (t *tally) list(now int64, every float64) (l List) {
	if every > 1 {
		l.Absent = deviations * deviations * every / 2 / (timeConst / float64(time.Second))
	}
	if t == nil || len(t.callers) == 0 {
		return l
	}
	now = max(now, t.at)
	age := float64(now-t.base) / float64(HalfLife)
	seen := -math.Expm1(-float64(max(now-t.begun, int64(time.Second))) / timeConst) // the share of a steady stream that has come by now
	decay := math.Exp2(-age)
	perSecond := 1 / (timeConst / float64(time.Second)) / seen
	size := 0
	for i := range t.callers {
		size += len(t.callers[i].name)
	}
	names := make([]byte, 0, size)
	for i := range t.callers {
		names = append(names, t.callers[i].name...)
	}
	text := string(names)
	l.Callers = make([]Caller, len(t.callers))
	least := math.Inf(1)
	for i := range t.callers {
		c := &t.callers[i]
		name := text[:len(c.name)]
		text = text[len(c.name):]
		weight := t.heap.At(t.places[i]).weight
		l.Callers[i] = Caller{
			Kind: name[:c.kind], ID: name[c.kind:], Rate: weight * decay * perSecond, Over: c.excess * decay * perSecond, Error: errorOf((weight-c.excess)*decay, c.spread*decay*decay, every/2) * perSecond,
		}
		least = min(least, l.Callers[i].Rate)
	}
	if len(t.callers) == maxCallers {
		l.Absent += least
	}
	return l
}

// errorOf returns how far the true weight is above an estimate with this variance, in 19 of 20 cases; it is below it by less. One weight of
// the estimate stands for a unit. The variance is itself an estimate, and grows with the true weight: this is the upper end of Wilson's score
// interval for a Poisson variable.
func errorOf(weight, variance, unit float64) float64 {
	if weight <= 0 || variance <= 0 {
		return 0
	}
	unit = deviations * max(unit, variance/weight) / 2
	return deviations * (unit + math.Sqrt(variance+unit*unit))
}

package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// model is a distribution of requests that last, as those to a language model do. The duration is lognormal. The cost grows with it: it
// is tokens a second times the duration, where the tokens a second are lognormal and independent of the duration. So the cost is
// lognormal, too.
type model struct {
	resource   string
	cost       float64       // mean
	cv         float64       // coefficient of variation of the cost
	duration   time.Duration // mean
	durationCV float64       // coefficient of variation of the duration, not above that of the cost

	independent bool                              // the cost does not depend on the duration
	declared    float64                           // what is declared is the cost times 1 to this, evenly distributed; 0: nothing is declared
	factor      func(since time.Duration) float64 // of the cost, since the start; nil is 1
}

// draw makes r a request for the model.
func (m *model) draw(random *rand.Rand, r *Request) {
	duration := lognormal(random, m.durationCV)
	r.Resource, r.Duration = m.resource, time.Duration(duration*float64(m.duration))
	cost := m.cost
	if m.independent {
		cost *= lognormal(random, m.cv)
	} else {
		// (1 + cv²) of a product is the product of the factors' own.
		cost *= duration * lognormal(random, math.Sqrt((1+m.cv*m.cv)/(1+m.durationCV*m.durationCV)-1))
	}
	if m.factor != nil {
		cost *= m.factor(time.Duration(r.At - start))
	}
	r.Cost = max(1, int64(math.Round(cost)))
	if over := m.declared; over > 0 {
		r.Declared = int64(math.Ceil(float64(r.Cost) * (1 + (over-1)*random.Float64())))
	}
}

// lognormal draws a number with mean 1.
func lognormal(random *rand.Rand, cv float64) float64 {
	variance := math.Log1p(cv * cv)
	return math.Exp(math.Sqrt(variance)*random.NormFloat64() - variance/2)
}

// Streams of random numbers. Each agent has one from streamAgents on.
const (
	streamModels = 4
	streamAgents = 16
)

// lasting is the requests of a generator, each for one of some models.
type lasting struct {
	*generator
	models []model
	draws  *rand.Rand
}

func newLasting(seed uint64, g *generator, models []model) *lasting {
	return &lasting{g, models, rand.New(rand.NewPCG(seed, streamModels))} //nolint:gosec // no secret
}

func (l *lasting) next(r *Request) bool {
	if !l.generator.next(r) {
		return false
	}
	l.models[l.draws.IntN(len(l.models))].draw(l.draws, r)
	return true
}

package busiest

import "time"

const (
	budget   = 500 // samples of a second of log time
	coarsest = 32  // one of at most so many is sampled, however many come
)

// pace says how many entries or requests one sample stands for, on average: as few as the budget allows. So a slow stream is counted in
// full, and a fast one costs little for each entry. A stream is fast if log time stands still.
type pace struct {
	budget int64
	every  int64 // one of so many is sampled, on average
	since  int64 // log time
	seen   int64 // has come since then

	coarse   int64 // the largest every of the last minute
	coarseAt int64 // log time
}

func newPace() pace { return pace{budget: budget, every: 1, coarse: 1} }

// passed notes that n more have come, by log time now.
func (p *pace) passed(n, now int64) {
	p.seen += n
	elapsed := now - p.since
	if elapsed < int64(time.Second) && p.seen < 2*p.budget*p.every {
		return
	}
	perSecond := float64(p.seen) / (float64(max(elapsed, 1)) / float64(time.Second))
	p.every = int64(min(max(perSecond/float64(p.budget), 1), coarsest))
	p.since, p.seen = now, 0
	if p.every >= p.coarse || now-p.coarseAt > int64(time.Minute) {
		p.coarse, p.coarseAt = p.every, now
	}
}

// variance returns the variance of one sample of weight 1 of an entry.
func (p *pace) variance() float64 { return float64(p.every * (p.every - 1)) }

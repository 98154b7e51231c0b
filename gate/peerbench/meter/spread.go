package meter

import (
	"context"
	"time"
)

// Plan says how long measuring takes. The zero value measures nothing.
type Plan struct {
	Rounds int           // of each trial; their median counts
	Round  time.Duration // how long each takes, about
}

// Spread measures each trial in each round on so many processors, and returns a Series for each. Trials take turns, and
// each round begins with another one, so that none always comes after the same other. A nil trial is left out. It ends early with ctx, and then
// returns its error.
func (p Plan) Spread(ctx context.Context, cpus int, trials ...Work) ([]Series, error) {
	all := make([]Series, len(trials))
	for round := range p.Rounds {
		for i := range trials {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if at := (round + i) % len(trials); trials[at] != nil {
				all[at] = append(all[at], Take(cpus, p.Round, trials[at]))
			}
		}
	}
	return all, nil
}

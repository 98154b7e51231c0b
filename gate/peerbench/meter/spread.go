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

// Spread measures each trial in each round on the given number of processors, and returns a Series for each trial. Trials
// take turns. Each round begins with another trial, so that no trial always follows the same one. A nil trial is left out.
// If ctx ends, Spread ends early and returns its error.
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

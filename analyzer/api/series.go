package api

import (
	"context"
	"net/http"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/api/series"
)

// Series keeps what this analyzer counted in each of the last seconds. *series.Ring is one. Its method is safe for concurrent use.
type Series interface {
	Newest(now time.Time, seconds int) apiv1.Series
}

// getSeries adds the samples of this analyzer and, by one forwarded request each, those of the owners of all other partitions. The
// answer is never an error because a partition has no owner: it names that partition, and has what others count and have counted.
func (s *Server) getSeries(c *call) error {
	seconds, err := c.query.number("seconds", series.Samples, 1, series.Samples)
	if err != nil {
		return err
	}
	partitions, err := c.partitions()
	if err != nil {
		return err
	}
	all := c.backend.Series.Newest(c.now(), int(seconds))
	all.Partitions = c.backend.Partitions
	var others []int
	here := c.ownersHere()
	missing, _ := gather(c, partitions, func(_ context.Context, p int) (*apiv1.Series, error) {
		return nil, here(p) // all has the samples of this analyzer already
	}, func(v *apiv1.Series, asked []int) bool {
		if !contains(asked, v.Missing) || series.Add(&all, v) != nil {
			return false
		}
		others = append(others, v.Missing...)
		return true
	})
	all.Missing = sorted(append(others, missing...))
	return c.answer(http.StatusOK, all)
}

// ownersHere returns a function that returns nil if this analyzer owns a partition and counts it, else the error that Ask would return.
func (c *call) ownersHere() func(p int) error {
	states := make(map[int]analyzer.State)
	for _, o := range c.backend.Analyzer.Stats() {
		if o.State != analyzer.Idle {
			states[o.Partition] = o.State
		}
	}
	return func(p int) error {
		state, ok := states[p]
		switch {
		case !ok:
			return &analyzer.NotOwnerError{Partition: p}
		case !state.Decides():
			return &analyzer.NotRunningError{Partition: p, State: state}
		}
		return nil
	}
}

// contains reports whether the partitions in some are distinct, and all of them were asked for.
func contains(asked, some []int) bool {
	seen := make(map[int]bool, len(asked))
	for _, p := range asked {
		seen[p] = true
	}
	for _, p := range some {
		if !seen[p] {
			return false
		}
		seen[p] = false
	}
	return true
}

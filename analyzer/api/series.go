package api

import (
	"context"
	"net/http"
	"sync"
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
	var q wanted
	seconds, err := c.number("seconds", series.Samples, 1, series.Samples)
	if err != nil {
		return err
	}
	if err := c.partitionsOf(&q); err != nil {
		return err
	}
	all := c.backend.Series.Newest(c.now(), int(seconds))
	all.Partitions = c.backend.Partitions
	var mu sync.Mutex // guards all
	var others []int
	here := c.partitionsHere()
	missing, _ := gather(c, &q, func(_ context.Context, p int) error {
		return here(p)
	}, func(v *apiv1.Series, asked []int) bool {
		mu.Lock()
		defer mu.Unlock()
		if !contains(asked, v.Missing) || series.Add(&all, v) != nil {
			return false
		}
		others = append(others, v.Missing...)
		return true
	})
	all.Missing = sorted(append(others, missing...))
	return c.answer(http.StatusOK, all)
}

// partitionsHere returns a function that says of a partition whether its owner is here and counts, as Ask would.
func (c *call) partitionsHere() func(p int) error {
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

// contains reports whether all partitions of some are among those asked for, each once.
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

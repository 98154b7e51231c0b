package simulate

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
)

// Defaults of a Log.
const (
	DefaultLag     = 50 * time.Millisecond
	DefaultServers = 2
)

// quietLags is how many lags servers measure at least before the first line. A canary's answer takes one, and the next canary,
// which says what was measured, another.
const quietLags = 3

// streamServers is the stream of random numbers by which requests of a log come to servers.
const streamServers = 3

// Log simulates the requests of an access log, as if they had come to our servers: each comes to a random one. NewLog makes one;
// one goroutine uses it.
type Log struct {
	options Options
	kinds   []string
	sim     *Simulation // nil before the first line
	random  *rand.Rand
	last    int64 // Unix nanoseconds: of the newest line
	callers []schemas.Caller
}

// NewLog returns a Log in which nothing has happened. Options.Rules is needed; Rate, Duration and Progress mean nothing. The
// kinds are those of the callers of a line, in order.
func NewLog(o Options, kinds []string) *Log {
	return &Log{options: o, kinds: kinds, random: rand.New(rand.NewPCG(o.Seed, streamServers))} //nolint:gosec // no secret
}

// Line runs the request of a line. A line that is older than the one before gets the time of that one.
func (l *Log) Line(line *ingest.Line) error {
	if l.sim == nil {
		o := &l.options
		var err error
		lag := cmp.Or(o.Lag, DefaultLag)
		if l.sim, err = New(Config{
			Rules: o.Rules, Predict: o.Predict, Start: line.Time, Quiet: max(quiet, min(quietLags*lag, maxQuiet)), Servers: cmp.Or(o.Servers, DefaultServers), Partitions: 1,
			Lag: LagOf(lag), Skew: o.Skew, Seed: o.Seed,
		}); err != nil {
			return err
		}
		l.last = line.Time
	}
	l.last = max(l.last, line.Time)
	l.callers = l.callers[:0]
	for i, id := range line.IDs {
		if id != "" {
			l.callers = append(l.callers, schemas.Caller{Kind: l.kinds[i], ID: id})
		}
	}
	_, err := l.sim.Request(&Request{
		At: l.last, Server: l.random.IntN(cmp.Or(l.options.Servers, DefaultServers)), Callers: l.callers, Resource: line.Resource,
	})
	return err
}

// Finish returns what was measured up to the last line; nil if there was none.
func (l *Log) Finish() (*Result, error) {
	if l.sim == nil {
		return nil, nil
	}
	return l.sim.Finish(l.last + 1)
}

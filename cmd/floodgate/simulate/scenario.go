package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// Kind is the kind of the callers of all scenarios.
const Kind = "key"

// start is when all scenarios begin: a full minute, hour and day.
const start = int64(1_767_225_600_000_000_000) // 2026-01-01T00:00:00Z

// quiet is for how long servers and the analyzer run before the first request: as long as they need to know the lag.
const quiet = 10 * time.Second

// Options say what differs from a scenario's own settings. Zero values leave them as they are.
type Options struct {
	Rules    *rules.Set // instead of the scenario's
	Lag      time.Duration
	Servers  int
	Rate     float64 // factor of all rates
	Skew     time.Duration
	Duration time.Duration
	Predict  rules.Predict
	Seed     uint64
	Progress func(passed, of time.Duration) // called ten times a virtual second; may be nil
}

// Scenario is traffic, rules and conditions that have a name.
type Scenario struct {
	Name  string
	About string
	Rules string // the text of a rules file

	lag, skew, duration, warmup time.Duration
	servers                     int
	streams                     func() []stream
	weights                     func(time.Duration) []float64 // of the servers; nil is equal ones
	jumps                       []Jump
	stops                       []Stop
	deaths                      []Death
	restarts                    []Stop

	models []model                         // requests that last, if there are some; see RuleResult.Limiters
	agents int                             // how many clients send them, instead of streams
	class  func(since time.Duration) class // see Config.class
}

// Run simulates the scenario, and returns what was measured: the same for the same options. If ctx ends, so does the run, with
// ctx's error.
func (s *Scenario) Run(ctx context.Context, o Options) (*Result, error) {
	c, err := s.config(&o)
	if err != nil {
		return nil, err
	}
	sim, err := New(c)
	if err != nil {
		return nil, err
	}
	traffic := s.traffic(&o, c.Servers)
	length := cmp.Or(o.Duration, s.duration)
	const tick = 100 * time.Millisecond
	next := tick
	for r := (Request{}); ; {
		passed := length
		more := traffic.next(&r)
		if more {
			passed = min(length, time.Duration(r.At-start))
		}
		for ; next <= passed; next += tick {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			if o.Progress != nil {
				o.Progress(next, length)
			}
		}
		if passed == length {
			result, err := sim.Finish(start + int64(length))
			if err == nil && c.Holds {
				s.runPeers(&o, &c, result, length)
			}
			return result, err
		}
		admitted, err := sim.Request(&r)
		if err != nil {
			return nil, err
		}
		traffic.decided(&r, admitted)
	}
}

// config returns the configuration of a run.
func (s *Scenario) config(o *Options) (Config, error) {
	c := Config{
		Rules: o.Rules, Predict: o.Predict, Start: start, Quiet: quiet, Warmup: s.warmup, Servers: cmp.Or(o.Servers, s.servers), Partitions: 1,
		Lag: LagOf(cmp.Or(o.Lag, s.lag)), Skew: cmp.Or(o.Skew, s.skew), Seed: o.Seed,
	}
	c.Lag.Jumps, c.Lag.Stops, c.Deaths, c.Restarts = s.jumps, s.stops, s.deaths, s.restarts
	c.Responses, c.Holds, c.class = s.models != nil, s.models != nil, s.class
	if length := cmp.Or(o.Duration, s.duration); c.Warmup >= length {
		return c, fmt.Errorf("simulate: got a duration of %v, want more than the %v that scenario %s takes to warm up", length, c.Warmup, s.Name)
	}
	if c.Rules != nil {
		return c, nil
	}
	var err error
	if c.Rules, err = rules.Parse(s.Name, []byte(s.Rules)); err != nil {
		return c, fmt.Errorf("simulate: rules of scenario %s: %w", s.Name, err)
	}
	return c, nil
}

// traffic returns the traffic of a run.
func (s *Scenario) traffic(o *Options, servers int) traffic {
	if s.agents > 0 {
		return newAgents(o.Seed, int(math.Ceil(float64(s.agents)*cmp.Or(o.Rate, 1))), servers, s.models)
	}
	streams := s.streams()
	if f := cmp.Or(o.Rate, 1); f != 1 {
		for i := range streams {
			streams[i] = streams[i].faster(f)
		}
	}
	weights := s.weights
	if servers != s.servers {
		weights = nil
	}
	g := newGenerator(o.Seed, servers, weights, streams...)
	if s.models == nil {
		return g
	}
	return newLasting(o.Seed, g, s.models)
}

// faster returns the stream with its rate multiplied by f.
func (s stream) faster(f float64) stream {
	if rate := s.rate; rate != nil {
		s.rate = func(at time.Duration) float64 { return f * rate(at) }
	}
	s.peak *= f
	return s
}

// Find returns the scenario of a name; ok is false if there is none.
func Find(name string) (s Scenario, ok bool) {
	all := Scenarios()
	i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return all[i], true
}

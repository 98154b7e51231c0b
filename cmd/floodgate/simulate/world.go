package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// Bounds of a Config.
const (
	MaxServers    = 1000
	MaxPartitions = 1000
	MaxSkew       = time.Hour
	maxQuiet      = time.Hour
)

// Request is a request of some callers. Its callers and strings are valid until the call returns that gets it.
type Request struct {
	At       int64 // Unix nanoseconds, virtual time; not before that of the request before
	Server   int   // which server it comes to
	Callers  []schemas.Caller
	Resource string

	Status  uint16 // of its response; and the response's cost. Both mean nothing without Config.Responses
	Cost    int64
	Refused bool // somebody else refused it: it is recorded as blocked for all callers, whatever the gates say

	Duration time.Duration // from its arrival to its response; 0: the response is recorded at once. It means nothing without Config.Responses
	Declared int64         // what the server expects it to cost; 0 is unknown. It means nothing without Config.Holds
	Client   int           // which client of the caller sends it: see RuleResult.Limiters. Servers do not see it
}

// Config says what is simulated. All fields are needed but those that say otherwise.
type Config struct {
	Rules      *rules.Set
	Predict    rules.Predict // no rule predicts more than this
	LagCap     float64       // closes are predicted while the lag is at most this share of the window; 0 is the fold's default
	Start      int64         // Unix nanoseconds, virtual time: when the first request may come
	Quiet      time.Duration // for so long before Start servers measure the lag, and no caller sends; may be 0
	Warmup     time.Duration // windows that begin before it has passed are measured apart; may be 0
	Servers    int
	Partitions int
	Lag        Lag
	Skew       time.Duration // the servers' clocks are spread evenly over ± Skew; may be 0
	Seed       uint64        // of the lag; may be 0
	Deaths     []Death       // may be empty
	Restarts   []Stop        // at whose ends another analyzer takes over, which counts the log again; may be empty

	Kills []Kill // as Restarts, of one partition each; may be empty

	class func(since time.Duration) class // of windows of requests that last, by when they begin; nil: all are ordinary

	// LagKnown tells the analyzer the mean of Lag once in a second in which a server sends something, as if a canary had measured
	// it. Servers send no canaries then, so that time without requests costs nothing.
	LagKnown  bool
	Responses bool // requests have a status and a cost; otherwise rules that count responses are refused
	Holds     bool // servers record when the requests of a response arrived, and what they expect of requests. Needs Responses
	MaxRows   int  // of each partition; 0 is 4 Mi. A Simulation that needs more fails; in a Circuit callers without a row are not counted
}

// Death ends a server: it sends nothing any more, not even the entries that wait in it. No request may come to it after that.
type Death struct {
	At     time.Duration // since the start
	Server int
}

// Kill ends the analyzer of one partition. Another takes over at the end of the stop.
type Kill struct {
	Stop

	Partition int
}

func (c *Config) check() error {
	switch {
	case c.Rules == nil:
		return errors.New("simulate: want rules")
	case c.Servers < 1 || c.Servers > MaxServers:
		return fmt.Errorf("simulate: got %d servers, want 1 to %d", c.Servers, MaxServers)
	case c.Partitions < 1 || c.Partitions > MaxPartitions:
		return fmt.Errorf("simulate: got %d partitions, want 1 to %d", c.Partitions, MaxPartitions)
	case c.Quiet < 0 || c.Quiet > maxQuiet:
		return fmt.Errorf("simulate: got a quiet time of %v, want 0 to %v", c.Quiet, maxQuiet)
	case c.Warmup < 0 || c.Skew < 0 || c.Skew > MaxSkew:
		return fmt.Errorf("simulate: got a warm-up of %v and a skew of %v, want 0 or more, and a skew of at most %v", c.Warmup, c.Skew, MaxSkew)
	}
	for _, d := range c.Deaths {
		if d.Server < 0 || d.Server >= c.Servers || d.At < 0 {
			return fmt.Errorf("simulate: got the death of server %d at %v, want 0 to %d, after the start", d.Server, d.At, c.Servers-1)
		}
	}
	for _, k := range c.Kills {
		if k.Partition < 0 || k.Partition >= c.Partitions {
			return fmt.Errorf("simulate: got a kill of partition %d, want 0 to %d", k.Partition, c.Partitions-1)
		}
	}
	for _, r := range c.Rules.Rules {
		if r.ReadsResponses() && !c.Responses {
			return fmt.Errorf("simulate: rule %s counts responses, and there are only requests", r.Name)
		}
	}
	if c.LagKnown {
		return c.Lag.checkMax(schemas.MaxClosure)
	}
	return c.Lag.check()
}

// world is the whole simulation: servers, the log, and an analyzer for each partition.
type world struct {
	timeline
	key        schemas.PartitionKey
	places     map[schemas.Caller]int // partitions of callers, remembered
	ways       ways
	servers    []*server
	partitions []*partition
	watch      watcher
	maxRows    int   // of each partition
	lagKnown   int64 // in nanoseconds; 0: canaries measure it
	err        error // the first
}

func newWorld(c *Config, watch watcher) *world {
	w := &world{
		timeline: newTimeline(),
		watch:    watch, maxRows: cmp.Or(c.MaxRows, maxRows), key: schemas.DefaultPartitionKey(), places: make(map[schemas.Caller]int),
		ways: ways{Lag: c.Lag, start: c.Start, random: rand.New(rand.NewPCG(c.Seed, streamLag))}, //nolint:gosec // no secret
	}
	w.now = c.Start - int64(c.Quiet)
	if c.LagKnown {
		w.lagKnown = int64(c.Lag.Mean())
	}
	w.ways.Stops = slices.Concat(c.Lag.Stops, c.Restarts)
	w.partitions = make([]*partition, c.Partitions)
	for i := range w.partitions {
		p := &partition{w: w, index: i, newFold: func() *fold.Fold {
			return fold.New(c.Rules, fold.Options{
				Partition: i, Partitions: c.Partitions, MaxRows: w.maxRows, NoStore: true, Predict: c.Predict, PredictLagCap: c.LagCap,
			})
		}}
		p.fold, p.keeps, p.toLog = p.newFold(), len(c.Restarts)+len(c.Kills) > 0, make([]orderedWay, c.Partitions)
		w.partitions[i] = p
		p.takePools()
		for _, r := range c.Restarts {
			w.at(c.Start+int64(r.From+r.For), p.restart)
		}
	}
	for _, k := range c.Kills {
		p := w.partitions[k.Partition]
		p.stops = append(p.stops, k.Stop)
		w.at(c.Start+int64(k.From+k.For), p.restart)
	}
	for i := range c.Servers {
		s := newServer(w, i, c)
		w.servers = append(w.servers, s)
		if !c.LagKnown {
			w.at(w.now+int64(canaryEvery)*int64(i)/int64(c.Servers), s.canary)
		}
	}
	for _, d := range c.Deaths {
		w.at(c.Start+int64(d.At), func() { w.servers[d.Server].dead = true })
	}
	return w
}

// maxRows is how many rows each partition has by default. A Simulation with more callers fails: which callers have rows would depend on
// chance.
const maxRows = 4 << 20

// streamLag is the stream of random numbers of the lag; those of traffic are others.
const streamLag = 1

// skewOf returns by how much the clock of a server is ahead.
func skewOf(c *Config, i int) time.Duration {
	if c.Servers == 1 {
		return 0
	}
	return time.Duration(2*i-(c.Servers-1)) * c.Skew / time.Duration(c.Servers-1)
}

// partitionOf returns the partition of a caller.
func (w *world) partitionOf(kind, id string) int {
	if len(w.partitions) == 1 {
		return 0
	}
	c := schemas.Caller{Kind: kind, ID: id}
	p, ok := w.places[c]
	if !ok {
		p = schemas.Partition(w.key.Hash(kind, id), len(w.partitions))
		w.places[c] = p
	}
	return p
}

// fail ends the run.
func (w *world) fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("simulate: %w", err)
	}
}

// Simulation is a run. New makes one. One goroutine uses it; it starts no other, and reads no clock.
type Simulation struct {
	w *world
	m *measuring
}

// New returns a simulation in which nothing has happened yet.
func New(c Config) (*Simulation, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	m := newMeasuring(&c)
	return &Simulation{newWorld(&c, m), m}, nil
}

// Request runs the events that are due before a request, and then the request. It reports whether the request was admitted. An error
// ends the simulation.
func (s *Simulation) Request(r *Request) (admitted bool, err error) {
	v, err := s.w.request(r)
	return err == nil && !v.Closed, err
}

// Finish runs the events that are due until the end, in Unix nanoseconds, and returns the Result.
func (s *Simulation) Finish(end int64) (*Result, error) {
	w := s.w
	w.finish(end)
	for _, p := range w.partitions {
		if st := p.fold.Stats(); st.UncountedWeight() > 0 {
			w.fail(fmt.Errorf("partition %d has more than %d rows", p.index, w.maxRows))
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	for _, s := range w.servers {
		s.closures.finish(end + s.skew)
	}
	for _, p := range s.m.pools {
		s.m.result.Pools = append(s.m.result.Pools, p.Result())
	}
	s.m.reference.finish(s.m.result, end, w.servers)
	return s.m.result, nil
}

// request runs the events that are due before a request, and then the request.
func (w *world) request(r *Request) (v gate.Verdict, err error) {
	switch {
	case w.err != nil:
	case r.Server < 0 || r.Server >= len(w.servers):
		w.fail(fmt.Errorf("got a request to server %d, want 0 to %d", r.Server, len(w.servers)-1))
	case r.At < w.now:
		w.fail(fmt.Errorf("got a request at %d, want %d or later", r.At, w.now))
	default:
		w.advance(r.At)
		s := w.servers[r.Server]
		if s.dead {
			w.fail(fmt.Errorf("got a request to server %d, which is dead", r.Server))
			break
		}
		v = s.request(r)
		w.watch.requested(r, s, &v)
	}
	return v, w.err
}

// finish runs the events that are due until the end.
func (w *world) finish(end int64) {
	w.advance(end)
	for _, s := range w.servers {
		s.checkRecorder()
	}
}

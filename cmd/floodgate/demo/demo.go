package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// Config says what the demo runs, and how much load it sends. All fields except Data and Predict are needed.
type Config struct {
	Duration   time.Duration // how long it sends requests
	Data       string        // an empty directory for the log and the counts; "" is a temporary directory, which is removed
	Partitions int           // of the topics
	Servers    int           // web servers with a gate
	Quiet      int           // callers that keep to the limit
	Noisy      int           // callers that do not
	QuietRate  float64       // requests per second of one caller
	NoisyRate  float64
	Limit      int64         // requests that a caller has in each window
	Window     time.Duration // its length
	Fair       bool          // no caller has a limit: all share a capacity, half as much again as the quiet ones ask for. Then nothing is predicted
	API        string        // host:port on loopback of the API, where this machine may do everything; "" is none
	Dashboard  bool          // print a link to the dashboard that works once; without API, there is one for such links only
	Predict    rules.Predict // by what means decisions come ahead of time in the second half; the zero value is off

	Out    io.Writer    // output for the user
	JSON   bool         // write JSON objects to Out, one a line
	Logger *slog.Logger // of all parts
}

// ErrInterrupted means that the demo was stopped before there was anything to audit.
var ErrInterrupted = errors.New("demo: interrupted before a request was sent")

// interrupted returns ErrInterrupted in place of an error that the end of ctx has caused.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// installation is everything that the demo runs, in one process.
type installation struct {
	config   Config
	dir      string
	rules    *rules.Set // in use; send changes them
	broker   *embedded.Broker
	client   *kafkaio.Client
	analyzer *analyzer.Analyzer
	servers  []*server
	load     *load
	closes   *closeWatch
	began    time.Time  // when load began
	api      *apiServer // nil: none
}

// Run starts a broker, an analyzer and servers, sends load, shows what happens, and audits itself. When ctx ends it stops
// sending, and audits the requests that were sent before. If there were none, the error is ErrInterrupted.
func Run(ctx context.Context, c Config) (sum *Summary, err error) {
	set, err := c.Rules()
	if err != nil {
		return nil, err
	}
	d := &installation{config: c, rules: set, closes: newCloseWatch()}
	d.closes.predictedFrom(time.Unix(0, 0), rules.PredictOff)
	cleanUp, err := d.directory()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cleanUp()) }()
	return d.run(ctx, newView(c.Out, c.JSON))
}

// directory makes the directory, and returns how to remove it again, if it is a temporary one.
func (d *installation) directory() (cleanUp func() error, err error) {
	if d.config.Data != "" {
		d.dir = d.config.Data
		return func() error { return nil }, os.MkdirAll(d.dir, 0o700)
	}
	d.dir, err = os.MkdirTemp("", "floodgate-demo-")
	return func() error { return os.RemoveAll(d.dir) }, err
}

func (d *installation) storeDir() string { return filepath.Join(d.dir, "counts") }

// run is the demo from the first start to the audit. The parts stop in the order of the data flow: load, servers, analyzer.
func (d *installation) run(ctx context.Context, view *view) (sum *Summary, err error) {
	if err := d.open(ctx); err != nil {
		return nil, interrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	parts, partsCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	analyzeCtx, stopAnalyzer := context.WithCancel(partsCtx)
	defer stopAnalyzer()
	serveCtx, stopServers := context.WithCancel(partsCtx)
	defer stopServers()
	analyzed, served := make(chan struct{}), make(chan struct{})
	parts.Go(func() error { defer close(analyzed); return d.analyzer.Run(analyzeCtx) })
	parts.Go(func() error { defer close(served); return d.serve(serveCtx) })
	parts.Go(func() error { return d.serveAPI(analyzeCtx, view) })

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(partsCtx, cancel)() // a part that fails ends the demo
	view.say("starting a broker on %s, an analyzer of %d partitions, and %d servers", d.broker.Addr(), d.config.Partitions, len(d.servers))
	if err = interrupted(ctx, d.ready(ctx)); err == nil {
		err = d.send(ctx, view)
	}
	stopServers()
	<-served
	if err == nil {
		err = d.caughtUp(partsCtx)
	}
	stopAnalyzer()
	<-analyzed
	if werr := parts.Wait(); werr != nil || err != nil {
		return nil, errors.Join(err, werr)
	}
	view.say("auditing: reading back the log and the store")
	return d.summarize(context.WithoutCancel(ctx))
}

// open starts the broker and makes everything that can fail.
func (d *installation) open(ctx context.Context) (err error) {
	d.broker, err = embedded.Start(embedded.Options{Dir: filepath.Join(d.dir, "log")})
	if err != nil {
		return err
	}
	d.client = kafkaio.New(kafkaio.Config{Brokers: d.broker.Addrs()})
	names := schemas.DefaultTopicNames()
	if _, err := d.client.EnsureTopics(ctx, kafkaio.Specs(names, d.config.Partitions)...); err != nil {
		return errors.Join(fmt.Errorf("create topics: %w", err), d.close())
	}
	if err := d.openAPI(); err != nil {
		return errors.Join(err, d.close())
	}
	d.analyzer = analyzer.New(d.client, analyzer.Config{
		Dir: d.storeDir(),
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{Client: d.client, Group: "floodgate", Topic: names.Requests})
		},
		Owner: analyzer.OwnerConfig{
			Fold:     fold.Options{Partitions: d.config.Partitions, Predict: d.config.Predict},
			Requests: names.Requests, Decisions: names.Decisions, State: names.State, Control: names.Control, Events: names.Events, API: d.config.API, Rules: d.rules, RulesFile: "the flags of the demo", Name: "demo",
			Store: store.Options{Logger: d.config.Logger}, Logger: d.config.Logger, Observe: d.closes.counted,
		},
	})
	for range d.config.Servers {
		s, err := newServer(d.broker.Addrs(), d.config.Logger, d.closes)
		if err != nil {
			return errors.Join(err, d.close())
		}
		d.servers = append(d.servers, s)
	}
	d.load = newLoad(d.config, d.servers)
	return nil
}

func (d *installation) close() error {
	for _, s := range d.servers {
		s.link.Close()
	}
	if d.api != nil {
		_ = d.api.listener.Close() // the server may have closed it
	}
	d.client.Close()
	return d.broker.Close()
}

// serve runs the servers until ctx ends and their links have sent what they recorded.
func (d *installation) serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range d.servers {
		g.Go(func() error { return s.run(ctx) })
	}
	return g.Wait()
}

// ready waits until every gate hears every partition's owner.
func (d *installation) ready(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		return !slices.ContainsFunc(d.servers, func(s *server) bool { return !s.fresh() }), nil
	})
}

// until calls ask every 10 ms, until it returns ok or an error, or ctx ends, which is an error too.
func until(ctx context.Context, ask func() (ok bool, err error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// send sends load for the demo's duration and shows once a second what happens. Halfway it lets the analyzer predict.
func (d *installation) send(ctx context.Context, view *view) error {
	ctx, cancel := context.WithTimeout(ctx, d.config.Duration)
	defer cancel()
	var g errgroup.Group
	d.began = time.Now()
	g.Go(func() error { d.load.run(ctx); return nil })
	g.Go(func() error { return d.show(ctx, view) })
	return g.Wait()
}

// show prints a line a second until ctx ends, and halfway lets the analyzer predict.
func (d *installation) show(ctx context.Context, view *view) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var half <-chan time.Time // never, where nothing is to be predicted
	if d.config.Predict != rules.PredictOff && !d.config.Fair {
		half = time.After(d.config.Duration / 2)
	}
	for start := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			view.tick(now.Sub(start), d.load.totals(), d.closes.closed(now), d.closes.lag())
		case <-half:
			if err := d.predictHalfway(view); err != nil {
				return err
			}
		}
	}
}

// caughtUp waits until the analyzer has counted the whole log.
func (d *installation) caughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var behind int64
	err := until(ctx, func() (ok bool, err error) {
		behind, err = d.behind(ctx)
		return behind == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the analyzer: %d records behind: %w", behind, err)
	}
	return nil
}

// behind returns how many records of the log the analyzer has not counted.
func (d *installation) behind(ctx context.Context) (records int64, err error) {
	next := make(map[int]int64)
	for _, s := range d.analyzer.Stats() {
		next[s.Partition] = s.Next
	}
	for p := range d.config.Partitions {
		_, end, err := d.client.Range(ctx, schemas.DefaultTopicNames().Requests, p)
		if err != nil {
			return records, err
		}
		records += end - next[p]
	}
	return records, nil
}

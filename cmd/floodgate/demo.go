package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// demo is everything that the demo runs, in one process.
type demo struct {
	config   demoConfig
	logger   *slog.Logger
	dir      string
	rules    *rules.Set
	broker   *embedded.Broker
	client   *kafkaio.Client
	analyzer *analyzer.Analyzer
	servers  []*demoServer
	load     *load
	closes   *closeWatch
}

// errInterrupted says that there is nothing to audit.
var errInterrupted = errors.New("demo: interrupted before a request was sent")

// interrupted returns errInterrupted in place of what came of ctx's end.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// runDemo starts a broker, an analyzer and servers, sends load, shows what happens, and audits itself.
func runDemo(ctx context.Context, p process, args []string) error {
	c, err := parseDemo(p, args)
	if err != nil {
		return err
	}
	set, err := c.rules()
	if err != nil {
		return usagef("--limit, --window: %w", err)
	}
	d := &demo{config: c, rules: set, logger: slog.New(slog.DiscardHandler), closes: newCloseWatch()}
	if c.verbose {
		d.logger = p.logger()
	}
	signal.Ignore(syscall.SIGPIPE) // whoever stops reading gets no more, and the directory is removed nevertheless
	cleanUp, err := d.directory()
	if err != nil {
		return err
	}
	sum, err := d.run(ctx, newDemoView(p, c.out.json))
	if err != nil {
		return errors.Join(err, cleanUp())
	}
	if err := sum.print(p, c.out.json); err != nil {
		return errors.Join(err, cleanUp())
	}
	return errors.Join(sum.verdict(), cleanUp())
}

// directory returns how to remove the directory again, if it is a temporary one.
func (d *demo) directory() (cleanUp func() error, err error) {
	if d.config.data != "" {
		d.dir = d.config.data
		if entries, err := os.ReadDir(d.dir); err == nil && len(entries) > 0 {
			return nil, usagef("--data: %s is not empty; the audit counts from nothing", d.dir)
		}
		return func() error { return nil }, os.MkdirAll(d.dir, 0o750)
	}
	d.dir, err = os.MkdirTemp("", "floodgate-demo-")
	return func() error { return os.RemoveAll(d.dir) }, err
}

func (d *demo) storeDir() string { return filepath.Join(d.dir, "counts") }

// run is the demo from the first start to the audit. Each part stops when what feeds it has: load, servers, analyzer.
func (d *demo) run(ctx context.Context, view *demoView) (sum *demoSummary, err error) {
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

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(partsCtx, cancel)() // a part that fails ends the demo
	view.say("starting a broker on %s, an analyzer of %d partitions, and %d servers", d.broker.Addr(), d.config.partitions, len(d.servers))
	if err = interrupted(ctx, d.ready(ctx)); err == nil {
		d.send(ctx, view)
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
func (d *demo) open(ctx context.Context) (err error) {
	d.broker, err = embedded.Start(embedded.Options{Dir: filepath.Join(d.dir, "log")})
	if err != nil {
		return err
	}
	d.client = kafkaio.New(kafkaio.Config{Brokers: d.broker.Addrs()})
	names := kafkaio.DefaultTopicNames()
	if _, err := d.client.EnsureTopics(ctx, kafkaio.Specs(names, d.config.partitions)...); err != nil {
		return errors.Join(fmt.Errorf("create topics: %w", err), d.close())
	}
	d.analyzer = analyzer.New(d.client, analyzer.Config{
		Dir: d.storeDir(),
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{Client: d.client, Group: "floodgate", Topic: names.Requests})
		},
		Owner: analyzer.OwnerConfig{
			Fold:     analyzer.FoldOptions{Partitions: d.config.partitions},
			Requests: names.Requests, Decisions: names.Decisions, State: names.State, Rules: d.rules, Name: "demo",
			Store: store.Options{Logger: d.logger}, Logger: d.logger, Observe: d.closes.counted,
		},
	})
	for range d.config.servers {
		s, err := newDemoServer(d.broker.Addrs(), d.logger, d.closes)
		if err != nil {
			return errors.Join(err, d.close())
		}
		d.servers = append(d.servers, s)
	}
	d.load = newLoad(d.config, d.servers)
	return nil
}

func (d *demo) close() error {
	d.client.Close()
	return d.broker.Close()
}

// serve runs the servers until ctx ends and their links have sent what they recorded.
func (d *demo) serve(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range d.servers {
		g.Go(func() error { return s.run(ctx) })
	}
	return g.Wait()
}

// ready waits until every gate hears every partition's owner.
func (d *demo) ready(ctx context.Context) error {
	for _, s := range d.servers {
		for !s.fresh() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			wait(ctx, 10*time.Millisecond)
		}
	}
	return nil
}

// send sends load for the demo's duration and shows once a second what happens.
func (d *demo) send(ctx context.Context, view *demoView) {
	ctx, cancel := context.WithTimeout(ctx, d.config.duration)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { d.load.run(ctx); return nil })
	g.Go(func() error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for start := time.Now(); ; {
			select {
			case <-ctx.Done():
				return nil
			case now := <-tick.C:
				view.tick(now.Sub(start), d.load.totals(), d.closes.closed(now), d.closes.lag())
			}
		}
	})
	_ = g.Wait() // neither returns an error
}

// caughtUp waits until the analyzer has counted all that the log holds.
func (d *demo) caughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		behind := int64(0)
		next := make(map[int]int64)
		for _, s := range d.analyzer.Stats() {
			next[s.Partition] = s.Next
		}
		for p := range d.config.partitions {
			_, end, err := d.client.Range(ctx, kafkaio.DefaultTopicNames().Requests, p)
			if err != nil {
				return fmt.Errorf("wait for the analyzer: %w", err)
			}
			behind += end - next[p]
		}
		if behind == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the analyzer: %d records behind: %w", behind, ctx.Err())
		}
		wait(ctx, 10*time.Millisecond)
	}
}

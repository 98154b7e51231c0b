package notify

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/filewatch"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// defaultMaxPending is how many events of an endpoint are in memory at most.
const defaultMaxPending = 10_000

// Config says what a Notifier needs. Fetcher, Join, Topic, Group and Path are needed.
type Config struct {
	Fetcher    kafkaio.Fetcher
	Join       func(group string) (Membership, error) // makes the process a member of a group
	Topic      string                                 // of events
	Group      string                                 // to which a dot and the name of an endpoint are appended
	Path       string                                 // of the settings
	MaxPending int                                    // 0 is 10,000
	Logger     *slog.Logger                           // nil logs nothing

	Observe func(Attempt)               // called for each attempt, from many goroutines; nil: nobody is
	Sender  func(webhook.Config) Sender // nil makes a webhook.Client
}

// Attempt is one attempt to deliver a call.
type Attempt struct {
	Endpoint string
	Took     time.Duration
	Result   string // one of Results
}

// Sender sends messages to one URL, as webhook.Client does.
type Sender interface {
	Send(ctx context.Context, m webhook.Message, at time.Time) webhook.Answer
}

// Membership is a place in a consumer group: *kafkaio.Group is one, and *solo.Member without a group.
type Membership interface {
	Next(ctx context.Context) (*kafkaio.Generation, error)
	Close() error
}

// Notifier delivers events to the endpoints of its settings. New makes one. Its methods are safe for concurrent use, but Run is
// called once.
type Notifier struct {
	c      Config
	reload chan struct{}
	watch  func(ctx context.Context, reload <-chan struct{}, dirs func() []string, look func(always bool)) // filewatch.Watch

	mu       sync.Mutex
	settings *endpoint.Config          // guarded by mu: in use
	refused  string                    // guarded by mu: what is wrong with the newest file, which is not in use; empty: nothing
	workers  map[string]*runningWorker // guarded by mu: by name of endpoint
}

// runningWorker is a worker and what ends it.
type runningWorker struct {
	*worker

	stop context.CancelFunc
}

// New returns a Notifier that works by settings, which were read from Config.Path.
func New(c Config, settings *endpoint.Config) *Notifier {
	c.MaxPending = cmp.Or(c.MaxPending, defaultMaxPending)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(Attempt) {}
	}
	if c.Sender == nil {
		c.Sender = func(c webhook.Config) Sender { return webhook.New(c) }
	}
	return &Notifier{
		c: c, settings: settings, reload: make(chan struct{}, 1), watch: filewatch.Watch, workers: make(map[string]*runningWorker),
	}
}

// Reload makes Run read the settings now, and enable disabled endpoints even if nothing has changed: for SIGHUP. It does not block.
func (n *Notifier) Reload() {
	select {
	case n.reload <- struct{}{}:
	default: // a reload is pending already
	}
}

// Run delivers until ctx ends, and then returns nil. An error is that of a group which cannot be joined.
func (n *Notifier) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	start := func(w *runningWorker, ctx context.Context) { g.Go(func() error { return w.run(ctx) }) }
	n.use(ctx, n.settings, start)
	g.Go(func() error {
		n.watch(ctx, n.reload, n.dirs, func(always bool) { n.look(ctx, always, start) })
		return nil
	})
	return g.Wait()
}

// dirs returns where the files of the settings are.
func (n *Notifier) dirs() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	dirs := []string{filepath.Dir(n.c.Path)}
	for _, file := range n.settings.Files {
		dirs = append(dirs, filepath.Dir(file))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// look reads the settings, and uses them if they have changed, or in any case if always is true.
func (n *Notifier) look(ctx context.Context, always bool, start func(*runningWorker, context.Context)) {
	settings, err := endpoint.Load(n.c.Path)
	refused := ""
	if err != nil {
		refused = err.Error()
	}
	n.mu.Lock()
	was, current := n.refused, n.settings
	n.refused = refused
	n.mu.Unlock()
	switch {
	case err != nil:
		if refused != was || always {
			n.c.Logger.Error("cannot use the new settings, the old ones stay in use", "error", err)
		}
	case always || was != "" || !settings.Same(current):
		n.c.Logger.Info("using the new settings", "endpoints", len(settings.Endpoints))
		for _, w := range settings.Warnings {
			n.c.Logger.Warn("settings", "warning", w.Error())
		}
		n.use(ctx, settings, start)
	}
}

// use makes the workers those of the settings.
func (n *Notifier) use(ctx context.Context, settings *endpoint.Config, start func(*runningWorker, context.Context)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settings = settings
	for name, w := range n.workers {
		if settings.Named(name) == nil {
			w.stop()
			delete(n.workers, name)
		}
	}
	for _, e := range settings.Endpoints {
		if w := n.workers[e.Name]; w != nil {
			w.change(e, time.Now())
			continue
		}
		own, stop := context.WithCancel(ctx)
		w := &runningWorker{newWorker(&n.c, e), stop}
		n.workers[e.Name] = w
		start(w, own)
	}
}

// Waits returns what the Notifier waits for before it can deliver, or "".
func (n *Notifier) Waits() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.settings.Endpoints {
		if w := n.workers[e.Name]; w == nil || !w.hasJoined() {
			return "waiting for the group of endpoint " + e.Name
		}
	}
	return ""
}

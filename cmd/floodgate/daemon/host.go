package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/analyzer/notify"
	"github.com/509da70d/floodgate/analyzer/notify/notifyprom"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/apid"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/httpd"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/haproxy"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/filelog"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/solo"
)

// host is everything that serve runs.
//
//	files ──▶ intake ──▶ keeper ──▶ log ──▶ analyzer ──▶ log ──▶ link ──▶ gates ◀── proxies ask
//	                                 └──────────────────────────▶ API, feed, bouncers, HAProxy, notify
type host struct {
	config     *serveConfig
	logger     *slog.Logger
	lock       io.Closer // of --data
	log        *filelog.Log
	keeper     *keeper // bounds the log; requests are appended through it
	names      schemas.TopicNames
	partitions int
	rules      *rules.Set              // at the start
	fail       context.CancelCauseFunc // ends run, because the log cannot be synced

	analyzer *analyzer.Analyzer
	set      *gate.Set
	rec      *record.Recorder
	side     *sidecar.Sidecar
	link     *kafkalink.Link
	intake   *intake                   // nil: what proxies ask is counted
	mapping  []byte                    // the text of the mapping file in use
	kinds    atomic.Pointer[[]string]  // of the callers that are read
	feed     atomic.Pointer[feed.Feed] // nil: none yet
	api      *api.Server               // nil: none
	apiBound net.Listener
	links    *api.Links // to the dashboard; nil: none
	life     *apid.Life
	board    *board.Board     // filled by the link
	gates    *gateFeed        // nil: none
	bouncers *bouncers        // nil: none
	haproxy  *haproxy.Writer  // nil: none
	notifier *notify.Notifier // nil: none
	webhooks *notifyprom.Collector
	asked    *httpd.Server // by proxies
	metrics  *httpd.Server // nil: none
}

// open opens everything that can fail before it listens. What is open when it fails is closed by the end of the process.
func (c *serveConfig) open(ctx context.Context, logger *slog.Logger) (h *host, err error) {
	h = &host{config: c, logger: logger, names: schemas.DefaultTopicNames(), fail: func(error) {}}
	if h.lock, err = openData(c.data); err != nil {
		return nil, err
	}
	if network := networkFileSystem(c.data); network != "" {
		logger.Warn("--data is on another machine: locks and syncs may not hold there; want a local disk", "file_system", network)
	}
	if h.partitions, err = readLayout(c.data); err != nil {
		return nil, err
	}
	if h.rules, err = c.openRules(logger); err != nil {
		return nil, err
	}
	logWarnings(logger, h.rules)
	c.countNetworks(h.rules)
	if err := h.openLog(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(h.openIntake(), h.openGates(h.logger)); err != nil {
		return nil, err
	}
	h.warnOfKinds(h.rules)
	h.openAnalyzer()
	if err := errors.Join(h.openAPI(), h.openNotify()); err != nil {
		return nil, err
	}
	return h, h.openServers()
}

// openLog opens the log and makes its topics.
func (h *host) openLog(ctx context.Context) (err error) {
	segment := min(max(int64(h.config.keepBytes)/int64(16*h.partitions), 1<<20), filelog.DefaultSegmentBytes)
	if h.log, err = filelog.Open(option.LocalLog(h.config.data), filelog.Options{SegmentBytes: segment, Logger: h.logger}); errors.Is(err, filelog.ErrPoints) {
		return command.Usagef("--data: %w", err)
	} else if err != nil {
		return err
	}
	if _, err := h.log.EnsureTopics(ctx, kafkaio.Specs(h.names, h.partitions)...); err != nil {
		return err
	}
	h.keeper = newKeeper(h.log, keeperConfig{
		Names: h.names, Partitions: h.partitions, Keep: time.Duration(h.config.keep), MaxBytes: int64(h.config.keepBytes), Sync: h.sync, Logger: h.logger,
	})
	return nil
}

// sync makes durable what the log has. After filelog.ErrBroken nobody knows what is on disk, and serve ends. After other errors, as on a full
// disk, stores and positions wait, and it is tried again.
func (h *host) sync() error {
	err := h.log.Sync()
	switch {
	case errors.Is(err, filelog.ErrBroken):
		h.fail(fmt.Errorf("the log cannot be written to disk: %w", err))
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err) // stores wait for room, in place of owners that fail
	}
	return err
}

// openGates makes the gates, which write to a log when decisions stay away, and what answers for them.
func (h *host) openGates(logger *slog.Logger) error {
	c := h.config
	ids, err := c.mapping.IDs.Load()
	if err != nil {
		return err
	}
	trusted, err := c.trusted()
	if err != nil {
		return err
	}
	callers, err := callerFunctions(c.callers, trusted, ids)
	if err != nil {
		return err
	}
	holds := h.intake != nil && h.intake.format.Holds() // a line says when a request that a proxy asked about has ended
	h.set, h.rec = gate.New(gate.Options{Logger: logger, IDs: ids}), record.New(record.Options{Holds: holds})
	o := sidecar.Options{Set: h.set, Callers: callers}
	if c.record {
		o.Recorder = h.rec
	}
	h.side = sidecar.New(o)
	h.board = apid.NewBoard()
	forward := func(ctx context.Context, frame []byte) error { return h.link.Forward(ctx, frame) } // of the link that serve opens
	if h.gates, err = c.feed.build(h.board, false, forward, logger); err != nil {
		return err
	}
	h.haproxy = c.haproxy.build(h.board, ids, false, logger)
	h.bouncers, err = c.bouncer.build(h.board, ids, false, logger)
	return err
}

// trusted returns the networks of proxies: those of the log, and this host, because only its proxies ask.
func (c *serveConfig) trusted() ([]netip.Prefix, error) {
	networks, err := c.mapping.Trusted()
	return append(networks, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")), err
}

// openAnalyzer makes the analyzer of all partitions.
func (h *host) openAnalyzer() {
	h.analyzer = analyzer.New(h.log, analyzer.Config{
		Dir:   h.config.data,
		Join:  func() (analyzer.Membership, error) { return solo.New(h.partitions), nil },
		Owner: h.owner(),
	})
}

// owner returns the configuration of the owners of all partitions.
func (h *host) owner() analyzer.OwnerConfig {
	c := h.config
	return analyzer.OwnerConfig{
		Fold:     fold.Options{Partitions: h.partitions, Predict: rules.PredictShares},
		Requests: h.names.Requests, Decisions: h.names.Decisions, State: h.names.State,
		Rejects: h.names.Rejects, Control: h.names.Control, Events: h.names.Events,
		API: c.api, Rules: h.rules, RulesFile: c.rules, Name: command.Name(), Sync: h.sync, SnapshotBy: int64(c.keepBytes) / int64(8*h.partitions),
		SnapshotNow: h.keeper.isFull,
		Store:       store.Options{Logger: h.logger}, Logger: h.logger,
	}
}

// run runs everything until ctx ends, or a part fails. Then it stops its parts in the order in which data flows, so that all that was read is
// counted: reading, the link, counting, serving. It closes what open has opened.
func (h *host) run(ctx context.Context, v *serveView) (err error) {
	defer func() { err = errors.Join(err, h.close()) }()
	always, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	h.fail = fail
	serving, stopServing := context.WithCancel(always)
	defer stopServing()
	counting, stopCounting := context.WithCancel(serving)
	defer stopCounting()
	reading, stopReading := context.WithCancel(counting)
	defer stopReading()
	defer context.AfterFunc(ctx, stopReading)()

	served, servedCtx := errgroup.WithContext(serving)
	defer context.AfterFunc(servedCtx, stopCounting)()
	if err := h.serve(servedCtx, served); err != nil {
		stopServing()
		return errors.Join(err, served.Wait())
	}
	counted, countedCtx := errgroup.WithContext(counting)
	defer context.AfterFunc(countedCtx, stopReading)()
	counted.Go(func() error { return h.analyzer.Run(countedCtx) })
	counted.Go(func() error {
		return followRules(countedCtx, h.logger, &h.config.mapping.IDs, h.config.rules, h.rules, h.changeRules, h.analyzer.RefuseRules)
	})
	served.Go(func() error { v.run(reading); return nil })
	err = h.read(reading)
	h.link.Close() // sends what was recorded
	h.awaitCounted(countedCtx)
	stopCounting()
	err = errors.Join(err, counted.Wait())
	stopServing()
	err = errors.Join(err, served.Wait())
	return errors.Join(context.Cause(always), err)
}

// serve starts what goes on until everything else has stopped. Proxies have answers until then, unless they are what is read.
func (h *host) serve(ctx context.Context, g *errgroup.Group) (err error) {
	config := kafkalink.Config{Log: h.keeper, Topics: h.names, Watch: h.board.Handler(), Logger: h.logger, Drain: drainTime}
	if h.link, err = kafkalink.Open(h.set, h.rec, config); err != nil {
		return err
	}
	if !h.config.record {
		g.Go(func() error { return h.asked.Run(ctx) })
	}
	if h.metrics != nil {
		h.report()
		g.Go(func() error { return h.metrics.Run(ctx) })
	}
	if h.api != nil {
		h.logger.Info("listening for the API", "address", h.apiBound.Addr().String())
		g.Go(func() error { return h.api.Serve(ctx, h.apiBound) })
		g.Go(func() error { return h.life.Run(ctx) })
	}
	if h.notifier != nil {
		g.Go(func() error { return h.notifier.Run(ctx) })
		g.Go(func() error { reloadOnHangup(ctx, h.notifier.Reload); return nil })
	}
	g.Go(func() error { h.keeper.run(ctx); return nil })
	g.Go(func() error { h.config.mapping.IDs.Watch(ctx, h.logger); return nil })
	g.Go(func() error { (&clockWatch{newest: h.keeper.newest(), logger: h.logger}).run(ctx); return nil })
	g.Go(func() error { return boundMemory(ctx, hostLimit) })
	g.Go(func() error { h.board.RunClock(ctx); return nil })
	h.gates.begin(ctx, g)
	h.bouncers.begin(ctx, g)
	beginHAProxy(ctx, g, h.haproxy)
	return nil
}

// drainTime is how long each of three may take when serve stops: to append what was read, to append what was recorded, and to count that. It is
// long for a local log; in one without room they wait in vain. What was read and is not appended is read again at the next start.
const drainTime = time.Second

// awaitCounted waits until the analyzer has counted all that the log has. What it does not count within drainTime is counted at the next
// start.
func (h *host) awaitCounted(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, drainTime)
	defer stop()
	for kafkaio.Sleep(ctx, 5*time.Millisecond) == nil {
		if h.behind() == 0 {
			return
		}
	}
}

// behind returns how many messages the analyzer has not counted.
func (h *host) behind() (messages int64) {
	next := make(map[int]int64)
	for _, s := range h.analyzer.Stats() {
		next[s.Partition] = s.Next
	}
	for p := range h.partitions {
		_, end, err := h.log.Range(context.Background(), h.names.Requests, p)
		if err != nil {
			return 1
		}
		messages += end - next[p]
	}
	return messages
}

// waits returns what serve waits for, or "".
func (h *host) waits(now time.Time) string {
	switch why := h.keeper.waits(); {
	case why != "":
		return why
	case !h.analyzer.Ready(now):
		return "see floodgate_partition_state"
	case !ready(h.link):
		return "waiting for the first decisions; all gates are open"
	}
	return ""
}

// close saves the positions and closes the log.
func (h *host) close() error {
	var errs []error
	if h.intake != nil {
		errs = append(errs, h.intake.positions.Close())
	}
	return errors.Join(append(errs, h.log.Close(), h.lock.Close())...)
}

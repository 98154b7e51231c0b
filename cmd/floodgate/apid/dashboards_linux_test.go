package apid

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/apiprom"
	"github.com/509da70d/floodgate/analyzer/api/controls"
	"github.com/509da70d/floodgate/analyzer/api/series"
	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// counting is an analyzer with one owner that counts as fast as it can, and answers between two frames.
type counting struct {
	set    *rules.Set
	ids    []string
	mu     sync.Mutex
	fold   *fold.Fold                 // guarded by mu
	folded int                        // guarded by mu
	asked  time.Duration              // guarded by mu: time that questions took
	stats  atomic.Pointer[fold.Stats] // as of the last batch
	closes chan *eventlog.Queue       // a caller is to be closed, and the events are for this queue; nil: none ever
}

// Entries of a frame, and frames of a batch, as an owner takes them.
const (
	frameEntries = 64
	batchFrames  = 64
)

// Ask implements api.Analyzer.
func (c *counting) Ask(_ context.Context, _ int, f func(*fold.Fold, analyzer.At)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func(begun time.Time) { c.asked += time.Since(begun) }(time.Now())
	f(c.fold, analyzer.At{Epoch: 7, Offset: int64(c.folded), LogTime: c.fold.LogTime()})
	return nil
}

// Stats implements api.Analyzer.
func (c *counting) Stats() []analyzer.OwnerStats {
	return []analyzer.OwnerStats{{State: analyzer.Running, Fold: *c.stats.Load(), Publish: analyzer.PublishStats{Epoch: 7}}}
}

// RulesStatus implements api.Analyzer.
func (c *counting) RulesStatus(time.Time) analyzer.RulesStatus {
	return analyzer.RulesStatus{Set: c.set}
}

// count counts until a time, and returns how many entries.
func (c *counting) count(until time.Time) (entries int) {
	for time.Now().Before(until) {
		for range batchFrames {
			c.frame()
			select {
			case q := <-c.closes:
				c.close(q)
			default:
			}
		}
		c.mu.Lock()
		s := c.fold.Stats()
		c.mu.Unlock()
		c.stats.Store(&s)
		entries += batchFrames * frameEntries
	}
	return entries
}

// frame counts a frame.
func (c *counting) frame() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UnixNano()
	for range frameEntries {
		c.fold.Entry(&schemas.Entry{Time: now, Kind: "ip", ID: c.ids[c.folded*7919%len(c.ids)], Count: 1})
		c.folded++
	}
}

// Of a pair of measurements: the fold alone, and watched by ten dashboards.
const (
	aloneFor   = 3 * time.Second
	watchedFor = 6 * time.Second // in which dashboards ask all that they ask, but for the rules
)

// BenchmarkDashboards says how much of its speed the fold of a partition with 250,000 rows keeps with ten dashboards, events and metrics,
// against none of them. Ten dashboards have a stream each and ask what the page asks, as often (see asks); 50 callers are closed each
// second, and their events are written to Kafka; metrics are scraped every 6 seconds, which is more often than Prometheus does. Dashboards
// and broker are another process.
//
// Dashboards, events and metrics cost the CPU that this process uses outside the thread that counts, each second, less what it uses there
// with none of them. The fold keeps what that leaves of one core. So neither a machine that does other things counts, nor its second core.
// That caches are shared is not in it: %-entries-median has that too, as entries for each second of the CPU of the whole process against
// none, but only a quiet machine gives it well.
//
//	go test ./cmd/floodgate/apid -run '^$' -bench Dashboards -benchtime 9x
func BenchmarkDashboards(b *testing.B) {
	const rows = 250_000
	c := &counting{closes: make(chan *eventlog.Queue, 1)}
	c.set = foldtest.Rules(b, "{name: r, callers: ip, limit: 1000000000, window: 1m}", "{name: noisy, callers: key, limit: 1, window: 1m}")
	c.fold = fold.New(c.set, fold.Options{MaxRows: 2 * rows, NoStore: true, Ends: true})
	c.stats.Store(&fold.Stats{})
	for i := range rows {
		c.ids = append(c.ids, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	for c.folded < 2*rows {
		c.count(time.Now().Add(100 * time.Millisecond))
	}
	s, lists, ring := newShow(b), lister.New(c), series.New()
	defer lists.Close()
	s.close(0, 1000)
	s.server.Attach(&api.Backend{
		Analyzer: c, Board: boardView{s.board}, Records: controls.New(controls.Config{}), Lists: lists, Series: ring, Partitions: 1,
	})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return ring.Run(ctx, c) })
	others := startOthers(b, s.url)
	events := newEvents(b, others.broker)
	scrape := newScrape(c, s.server)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var kept, entries []float64
	var asked time.Duration
	closed := 1000
	for b.Loop() {
		alone := c.measure(b, aloneFor)
		others.say(b, "begin")
		stopEvents := events.start(ctx, c, func() { s.close(closed, closed+1); closed++ })
		asked -= c.asked
		watched := c.measure(b, watchedFor, scrape)
		asked += c.asked
		stopEvents()
		others.say(b, "end")
		kept = append(kept, 100*(1-(watched.beside-alone.beside)))
		entries = append(entries, 100*watched.speed/alone.speed)
	}
	stop()
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(kept)
	slices.Sort(entries)
	b.ReportMetric(kept[len(kept)/2], "%-kept-median")
	b.ReportMetric(entries[len(entries)/2], "%-entries-median")
	b.ReportMetric(100*asked.Seconds()/float64(b.N)/watchedFor.Seconds(), "%-of-time-in-questions")
}

// newScrape returns a function that scrapes the metrics of an analyzer.
func newScrape(c *counting, server *api.Server) func() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), analyzerprom.New(c.Stats), apiprom.New(server.Stats))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return func() {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}

// events closes callers, and writes the events that follow to a topic, as an owner does.
type events struct {
	queue    *eventlog.Queue
	appender *kafkaio.Appender
}

func newEvents(b *testing.B, broker string) *events {
	b.Helper()
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	b.Cleanup(client.Close)
	if _, err := client.EnsureTopics(b.Context(), kafkaio.TopicSpec{Name: "events", Partitions: 1}); err != nil {
		b.Fatal(err)
	}
	e := &events{eventlog.NewQueue(), kafkaio.NewAppender(client, kafkaio.AppenderConfig{Topic: "events"})}
	e.queue.Begin(0)
	return e
}

// start closes 50 callers each second, until stop is called: in the fold, and on the board by closeOne.
func (e *events) start(ctx context.Context, c *counting, closeOne func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var g sync.WaitGroup
	g.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			select {
			case c.closes <- e.queue:
			case <-ctx.Done():
			}
			closeOne()
		}
	})
	g.Go(func() {
		for ctx.Err() == nil {
			list, last := e.queue.Batch(512)
			if len(list) == 0 {
				select {
				case <-ctx.Done():
				case <-e.queue.Wake():
				}
				continue
			}
			messages := make([]kafkaio.Message, len(list))
			for i := range list {
				messages[i].Value = list[i].Encode()
			}
			if _, err := e.appender.Append(ctx, messages...); err == nil {
				e.queue.Ack(last)
			}
		}
	})
	return func() { cancel(); g.Wait() }
}

// close counts a request that closes its caller, and queues the events of all that has changed.
func (c *counting) close(q *eventlog.Queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fold.Entry(&schemas.Entry{Time: time.Now().UnixNano(), Kind: "key", ID: fmt.Sprint("noisy-", c.folded), Count: 2})
	c.folded++
	changes := c.fold.TakeChanges()
	for i := range changes {
		changes[i].Offset = int64(c.folded)
		if e, ok := eventlog.Describe(&changes[i], 0, -1); ok {
			q.Add(&e)
		}
	}
	q.Reach(int64(c.folded) + 1)
}

// measured says what a time of counting has cost.
type measured struct {
	beside float64 // CPU of the process outside the thread that counted, in seconds for each second
	speed  float64 // entries for each second of CPU of the process
}

// measure counts for a time, and does something else meanwhile. The caller has locked its goroutine to its thread.
func (c *counting) measure(b *testing.B, d time.Duration, meanwhile ...func()) measured {
	b.Helper()
	process, thread := cpu(b, syscall.RUSAGE_SELF), cpu(b, syscall.RUSAGE_THREAD)
	var g sync.WaitGroup
	for _, f := range meanwhile {
		g.Go(f)
	}
	begun := time.Now()
	entries := c.count(begun.Add(d))
	g.Wait()
	process, thread = cpu(b, syscall.RUSAGE_SELF)-process, cpu(b, syscall.RUSAGE_THREAD)-thread
	return measured{(process - thread).Seconds() / time.Since(begun).Seconds(), float64(entries) / process.Seconds()}
}

// cpu returns how much CPU time this process has had, or this thread.
func cpu(b *testing.B, of int) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(of, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (c *counting) Outage(time.Time) (kafkaio.Outage, bool) { return kafkaio.Outage{}, false }

package apid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/api/controls"
	"github.com/509da70d/floodgate/analyzer/api/series"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
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

// BenchmarkDashboards says how much of its speed the fold of a partition with 250,000 rows keeps, while ten dashboards look on: each has a
// stream, and asks each second for the series, the status, the callers nearest to their limit and the busiest ones; 50 callers are closed
// each second. It counts for a second without them and a second with them, in turn.
//
// What the dashboards cost is the CPU of the whole process, their own too, less what the entries that were counted cost without them. The
// fold keeps what that leaves of one core. So a machine that does other things does not count, and neither does its second core.
//
//	go test ./cmd/floodgate/apid -run '^$' -bench Dashboards -benchtime 10x
func BenchmarkDashboards(b *testing.B) {
	const rows = 250_000
	c := &counting{set: foldtest.Rules(b, "{name: r, callers: ip, limit: 1000000000, window: 1m}")}
	c.fold = fold.New(c.set, fold.Options{MaxRows: rows, NoStore: true})
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
	g.Go(func() error { return ring.Run(ctx, c.Stats) })
	var kept []float64
	var alone float64
	var asked time.Duration
	closed := 1000
	for b.Loop() {
		entries, cost := c.second(b)
		perEntry := cost.Seconds() / float64(entries)
		alone += 1 / perEntry
		asked -= c.asked
		entries, cost = s.watched(b, &closed, c.second)
		kept = append(kept, 100*(1-(cost.Seconds()-float64(entries)*perEntry)))
		asked += c.asked
	}
	stop()
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(kept)
	b.ReportMetric(alone/float64(b.N), "entries/CPU-s-alone")
	b.ReportMetric(kept[len(kept)/2], "%-kept-median")
	b.ReportMetric(100*asked.Seconds()/float64(b.N), "%-of-time-in-questions")
}

// watched returns what second returns while ten dashboards look on.
func (s *show) watched(b *testing.B, closed *int, second func(*testing.B) (int, time.Duration)) (entries int, cost time.Duration) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	var g errgroup.Group
	var begun sync.WaitGroup // each has its stream, and the answers to its first questions
	for range 10 {
		begun.Add(1)
		g.Go(func() error { return s.dashboard(ctx, b, sync.OnceFunc(begun.Done)) })
	}
	begun.Wait()
	g.Go(func() error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			s.close(*closed, *closed+1)
			*closed++
		}
		return nil
	})
	entries, cost = second(b)
	stop()
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
	return entries, cost
}

// dashboard is one, without a browser, until ctx ends.
func (s *show) dashboard(ctx context.Context, b *testing.B, begun func()) error {
	st := s.stream(b, "gzip")
	st.until(b, "current")
	defer context.AfterFunc(ctx, st.end)()
	var g errgroup.Group
	g.Go(func() error { _, _ = io.Copy(io.Discard, st.wire); return nil }) // a browser unpacks it on another machine
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		for _, path := range []string{"/v1/series?seconds=5", "/v1/status", "/v1/callers?limit=20", "/v1/callers?sort=rate&limit=20"} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				return ctx.Err()
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: got %d, want 200", path, resp.StatusCode)
			}
		}
		begun()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	st.end()
	return g.Wait()
}

// second counts for a second, and returns how many entries it counted, and how much CPU this process used meanwhile.
func (c *counting) second(b *testing.B) (entries int, cost time.Duration) {
	b.Helper()
	begun := cpu(b)
	entries = c.count(time.Now().Add(time.Second))
	return entries, cpu(b) - begun
}

// cpu returns how much CPU time this process has had.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

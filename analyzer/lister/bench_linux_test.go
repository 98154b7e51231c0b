package lister

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// clocked measures the time that the thread of each question runs, which leaves out that other processes run in its place.
type clocked struct {
	*owner
	ran []time.Duration
}

func (c *clocked) Ask(ctx context.Context, partition int, f func(*fold.Fold, analyzer.At)) error {
	return c.owner.Ask(ctx, partition, func(fold *fold.Fold, at analyzer.At) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		begun := threadTime()
		f(fold, at)
		c.ran = append(c.ran, threadTime()-begun)
	})
}

// threadTime returns for how long this thread has run.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkTopOfAMillionRows reports for how long one question of a list of a million rows holds counting up, by the wall clock and by
// that of the thread: what the first has more, other processes have had.
func BenchmarkTopOfAMillionRows(b *testing.B) {
	o := ownerOf(b, 1<<20)
	for _, queries := range []int{1, maxQueries} {
		b.Run(fmt.Sprint(queries, " queries"), func(b *testing.B) {
			c := &clocked{owner: o}
			o.asked, o.took = 0, nil
			for b.Loop() {
				l := New(c)
				var batch []Query
				for i := range queries { // long pages, in orders that differ
					batch = append(batch, Query{Limit: maxLines - i, ByCount: i%2 == 1})
				}
				if w := newWalk(l, 0, batch); w.run() != nil || w.pages[0].Total != 1<<20 {
					b.Fatalf("got %+v", w.pages)
				}
				l.Close()
			}
			for clock, took := range map[string][]time.Duration{"wall": o.took, "ran": c.ran} {
				slices.Sort(took)
				for name, share := range map[string]float64{"median": 0.5, "p99": 0.99, "longest": 1} {
					b.ReportMetric(float64(took[int(share*float64(len(took)-1))].Microseconds()), "µs-"+clock+"-"+name)
				}
			}
			b.ReportMetric(float64(o.asked)/float64(b.N), "questions")
		})
	}
}

// ownerOf returns the owner of a partition with so many rows.
func ownerOf(b *testing.B, rows int64) *owner {
	b.Helper()
	set := foldtest.Rules(b, "{name: r, callers: ip, limit: 1000000, window: 1m}")
	o := &owner{mu: make(turn, 1), fold: fold.New(set, fold.Options{MaxRows: int(rows), NoStore: true})}
	for i := range rows {
		o.fold.Entry(&schemas.Entry{Time: now + i*1000, Kind: "ip", ID: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Count: uint32(1 + i%7)})
	}
	return o
}

// owners are those of several partitions.
type owners []*owner

func (o owners) Ask(ctx context.Context, partition int, f func(*fold.Fold, analyzer.At)) error {
	return o[partition].Ask(ctx, partition, f)
}

// BenchmarkTopOfFourPartitions lists the hundred busiest of a million callers in four partitions, as the API does: of all partitions at
// once. A new Lister for each list: it would answer from what it has for a second.
//
//	go test ./analyzer/lister -run '^$' -bench FourPartitions -benchtime 9x
func BenchmarkTopOfFourPartitions(b *testing.B) {
	var all owners
	for range 4 {
		all = append(all, ownerOf(b, 1<<18))
	}
	for b.Loop() {
		l := New(all)
		var g errgroup.Group
		for p := range all {
			g.Go(func() error {
				page, err := l.Top(b.Context(), p, Query{Limit: 100})
				if err == nil && (page.Total != 1<<18 || len(page.Lines) != 100) {
					err = fmt.Errorf("got %d of %d callers", len(page.Lines), page.Total)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		l.Close()
	}
}

package lister

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// BenchmarkFullLoadBeingAsked says how much of its speed the fold of a partition with 250,000 rows keeps, while 200 look-ups a second
// and a list each second interrupt it. It counts for a second without questions and a second with them, in turn. Streams of decisions
// never ask the fold: they are read from the board. Speeds are entries for each second of CPU of the whole process, questions and all: so
// a machine that does other things does not count.
//
//	go test ./analyzer/lister -run '^$' -bench FullLoad -benchtime 10x
func BenchmarkFullLoadBeingAsked(b *testing.B) {
	const rows, frame = 250_000, 64
	o := &owner{mu: make(turn, 1), fold: fold.New(foldtest.Rules(b, "{name: r, callers: ip, limit: 1000000000, window: 1m}"), fold.Options{MaxRows: rows, NoStore: true})}
	ids := make([]string, rows)
	for i := range ids {
		ids[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	}
	folded := 0
	count := func(until time.Time) (entries int) {
		for begun := folded; ; {
			o.mu.Lock()
			for range frame {
				o.fold.Entry(&schemas.Entry{Time: now + int64(folded), Kind: "ip", ID: ids[folded*7919%rows], Count: 1})
				folded++
			}
			o.mu.Unlock()
			if !time.Now().Before(until) {
				return folded - begun
			}
		}
	}
	for folded < 2*rows {
		count(time.Now())
	}
	l := New(o)
	defer l.Close()
	var kept []float64 // of each pair of seconds
	var entries float64
	for b.Loop() {
		alone := speed(b, count)
		ctx, stop := context.WithCancel(b.Context())
		var g errgroup.Group
		g.Go(func() error { return every(ctx, 5*time.Millisecond, func() error { return look(ctx, o, ids) }) })
		g.Go(func() error {
			return every(ctx, time.Second, func() error { _, err := l.Top(ctx, 0, Query{Limit: 100}); return err })
		})
		kept = append(kept, 100*speed(b, count)/alone)
		entries += alone
		stop()
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(kept)
	b.ReportMetric(entries/float64(b.N), "entries/CPU-s-alone")
	b.ReportMetric(kept[len(kept)/2], "%-kept-median")
	var inQuestions time.Duration
	for _, took := range o.took {
		inQuestions += took
	}
	b.ReportMetric(100*inQuestions.Seconds()/float64(b.N), "%-of-time-in-questions")
	b.ReportMetric(float64(o.asked)/float64(b.N), "questions/s")
}

// speed lets count run for a second, and returns how many entries it counted for each second of CPU of this process.
func speed(b *testing.B, count func(until time.Time) int) float64 {
	b.Helper()
	begun := cpu(b)
	n := count(time.Now().Add(time.Second))
	return float64(n) / (cpu(b) - begun).Seconds()
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

// every does something at once and then in each interval, until ctx ends. What the end of ctx breaks off is no error.
func every(ctx context.Context, interval time.Duration, do func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := do(); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look asks about one caller, as GET /v1/caller does.
func look(ctx context.Context, o *owner, ids []string) error {
	return o.Ask(ctx, 0, func(f *fold.Fold, at analyzer.At) {
		f.View().Look(schemas.Caller{Kind: "ip", ID: ids[o.asked*104729%len(ids)]}, at.LogTime)
	})
}

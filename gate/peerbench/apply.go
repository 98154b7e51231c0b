package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
	"github.com/509da70d/floodgate/schemas"
)

// perSecond is how many decisions a second the writer applies while readers are measured.
const perSecond = 10_000

// applying measures the costs of the writer: its time, its memory, and by how much it slows readers down.
func (b *bench) applying(ctx context.Context) error {
	closed, others := crowd(b.settings.many, b.settings.many)
	g, err := b.closing(closed)
	if err != nil {
		return err
	}
	return b.whileApplying(ctx, g, closed, others)
}

// batch is how many decisions are applied at once, as if they came in one message.
const batch = 1000

// closing measures how long it takes to close many callers in an empty gate, and how much memory they need.
func (b *bench) closing(closed []string) (*gate.Set, error) {
	now := time.Now()
	ds := peers.Decisions(closed, now, now.Add(time.Hour))
	var took, size []float64
	var g *gate.Set
	for range 3 {
		before := heap()
		set := gate.New(gate.Options{MaxClosed: len(closed)*21/20 + batch})
		cpu := meter.ProcessorTime()
		for i := 0; i < len(ds); i += batch {
			set.ApplyAt(now, ds[i:min(i+batch, len(ds))])
		}
		took = append(took, float64(meter.ProcessorTime()-cpu)/1e6)
		size = append(size, float64(heap()-before)/float64(len(closed)))
		g = set
	}
	if got := g.StatusAt(now).Closed; got != len(closed) {
		return nil, fmt.Errorf("got %d callers closed, want %d", got, len(closed))
	}
	b.row(report.Row{
		Case: "memory of a closed caller with an id of 22 bytes", Unit: "B", Bar: report.Bar{AtMost: 64},
		Figures: []report.Figure{{Value: meter.Median(size)}}, Note: "by the heap, with 1 M closed",
	})
	b.row(report.Row{
		Case: "applying 1 M closures to an empty gate", Unit: "ms", Bar: report.Bar{AtMost: 1000},
		Figures: []report.Figure{{Value: meter.Median(took)}}, Note: "in batches of 1,000; processor time, growth of the table included",
	})
	runtime.KeepAlive(ds)
	return g, nil
}

// heap returns how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// shortest is the shortest lookup that can be measured, in nanoseconds.
const shortest = 0.1

// whileApplying measures misses alone, and while a writer is at work.
func (b *bench) whileApplying(ctx context.Context, s *gate.Set, closed, others []string) error {
	asked := others[len(others)/20:] // the first twentieth is closed and opened meanwhile
	l := lookup{asked: asked}
	loop := &contender{subject: peers.Loop{}}
	g := &contender{subject: &peers.Gate{Set: s, Gate: s.Gate(peers.Kind)}}
	empty, ask := loop.work(l), g.work(l)
	row := report.Row{
		Case: "1 M closed, miss, while 10 k decisions/s are applied: slower by", Unit: "%", Bar: report.Bar{AtMost: 10},
		Note: "the writer's own processor time included",
	}
	writer := newWriter(s, closed[:len(others)/20], others[:len(others)/20])
	for _, cpus := range b.settings.cpus {
		runtime.GC()
		var times []float64
		for range 2 * b.settings.plan.Rounds {
			if err := ctx.Err(); err != nil {
				return err
			}
			take := func(w meter.Work) float64 { return meter.Take(cpus, b.settings.plan.Round, w).NS() }
			base, before := take(empty), take(ask)
			writer.start()
			busy := take(ask)
			writer.stop()
			alone := (before + take(ask)) / 2 // the mean of before and after cancels a trend
			times = append(times, (busy-base)/max(alone-base, shortest))
		}
		row.Figures = append(row.Figures, report.Figure{CPUs: cpus, Value: (meter.Median(times) - 1) * 100})
	}
	if n := g.wrong.Load(); n > 0 {
		return fmt.Errorf("got %d wrong answers while decisions were applied", n)
	}
	b.row(row)
	return nil
}

// writer applies decisions at a steady rate. Of three decisions, one renews a closure, one closes another caller, and one
// opens that caller again. A writer can be started again after it was stopped.
type writer struct {
	set       *gate.Set
	decisions []schemas.Decision
	applied   int // of all rounds
	quit      chan struct{}
	done      sync.WaitGroup
}

func newWriter(s *gate.Set, closed, others []string) *writer {
	now := time.Now()
	renew := peers.Decisions(closed, now, now.Add(2*time.Hour))
	shut := peers.Decisions(others, now, now.Add(time.Hour))
	open := peers.Decisions(others, now, now)
	w := &writer{set: s}
	for i := range renew {
		w.decisions = append(w.decisions, renew[i], shut[i], open[i])
	}
	return w
}

func (w *writer) start() {
	w.quit = make(chan struct{})
	w.done.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		start, before := time.Now(), w.applied
		for {
			select {
			case <-w.quit:
				return
			case now := <-tick.C:
				due := before + int(now.Sub(start).Seconds()*perSecond)
				for w.applied < due {
					from := w.applied % len(w.decisions)
					to := min(from+due-w.applied, len(w.decisions))
					w.set.ApplyAt(now, w.decisions[from:to])
					w.applied += to - from
				}
				w.set.Tick(now)
			}
		}
	})
}

func (w *writer) stop() {
	close(w.quit)
	w.done.Wait()
}

package lister

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/busiest"
	"github.com/509da70d/floodgate/analyzer/fold"
)

// serve walks as long as queries wait.
func (l *Lister) serve(p *partition) {
	for {
		l.mu.Lock()
		if len(p.waiting) == 0 {
			p.walking = false
			l.mu.Unlock()
			return
		}
		rest := p.rested.Sub(l.now())
		l.mu.Unlock()
		_ = pause(l.ctx, rest) // more queries may come meanwhile, for the same walk. After Close, the walk gets the error
		l.mu.Lock()
		batch := p.waiting
		p.waiting = nil
		l.mu.Unlock()
		w := newWalk(l, p.number, batch)
		err := w.run()
		l.mu.Lock()
		l.finish(p, w, err)
		l.mu.Unlock()
	}
}

// kept returns the size of the kept answers: one for each, plus its lines.
func (p *partition) kept() (lines int) {
	for _, r := range p.requests {
		if r.until.IsZero() {
			continue
		}
		if lines++; r.page != nil {
			lines += len(r.page.Lines)
		}
	}
	return lines
}

// pause waits, but not after ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// finish gives the answers of a walk to those who wait for them; l.mu is held.
func (l *Lister) finish(p *partition, w *walk, err error) {
	now := l.now()
	p.rested = now.Add(restTimes * w.steps.pausedFor)
	for q, r := range p.requests {
		if !r.until.IsZero() && !now.Before(r.until) {
			delete(p.requests, q)
		}
	}
	if p.kept() > maxKept {
		maps.DeleteFunc(p.requests, func(_ Query, r *request) bool { return !r.until.IsZero() })
	}
	answer := func(q Query, page *Page, busy *Busy) {
		r := p.requests[q]
		if r.err = err; err != nil {
			r.until = now // it is not given again
		} else {
			r.page, r.busy, r.until = page, busy, now.Add(max(keep, keepTimes*w.steps.pausedFor))
		}
		close(r.done)
	}
	for i, c := range w.collectors {
		answer(c.query, w.pages[i], nil)
	}
	if w.busiest {
		answer(Query{busiest: true}, nil, &w.busy)
	}
}

// walk is one walk for some queries.
type walk struct {
	lister     *Lister
	steps      steps
	collectors []*collector
	pages      []*Page // of the collectors; nil before the end
	busiest    bool    // one of them is Busy
	busy       Busy
}

func newWalk(l *Lister, partition int, batch []Query) *walk {
	w := &walk{lister: l, steps: steps{asker: l.asker, partition: partition, now: l.now}}
	for _, q := range batch {
		if q.busiest {
			w.busiest = true
		} else {
			w.collectors = append(w.collectors, newCollector(q))
		}
	}
	w.pages = make([]*Page, len(w.collectors))
	w.steps.places = max(1, places/max(1, len(w.collectors)))
	return w
}

// run asks the owner until all queries have their answers.
func (w *walk) run() error {
	ctx, cancel := context.WithTimeout(w.lister.ctx, walkTime)
	defer cancel()
	if w.busiest {
		if err := w.askBusiest(ctx); err != nil {
			return err
		}
	}
	again := 0
	for more := len(w.collectors) > 0; more; {
		var err error
		if more, err = w.steps.next(ctx, func() {
			again++
			for _, c := range w.collectors {
				c.clear()
			}
		}, func(r *fold.Row, at analyzer.At, now int64) {
			share := shareOf(r)
			for _, c := range w.collectors {
				c.take(r, share, at, now)
			}
		}); err != nil {
			return err
		}
		if again > restarts {
			return ErrRulesChanged
		}
	}
	for i, c := range w.collectors {
		w.pages[i] = c.page(w.steps.at)
	}
	return nil
}

// askBusiest asks for the busiest callers.
func (w *walk) askBusiest(ctx context.Context) error {
	err := w.steps.ask(ctx, func(f *fold.Fold, at analyzer.At) {
		begun := time.Now()
		w.busy.At, w.steps.at = at, at
		w.busy.Admitted, w.busy.Blocked = f.View().Busiest().Lists(w.lister.now().UnixNano())
		w.steps.pausedFor += time.Since(begun)
	})
	for _, list := range [][]busiest.Caller{w.busy.Admitted.Callers, w.busy.Blocked.Callers} {
		slices.SortFunc(list, func(a, b busiest.Caller) int {
			return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
		})
	}
	return err
}

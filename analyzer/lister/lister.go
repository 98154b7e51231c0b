package lister

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/busiest"
	"github.com/509da70d/floodgate/analyzer/fold"
)

// asker asks the owners of partitions. *analyzer.Analyzer is one.
type asker interface {
	Ask(ctx context.Context, partition int, f func(*fold.Fold, analyzer.At)) error
}

// Bounds of a Lister, for each partition.
const (
	maxQueries = 64               // that differ, and wait for a walk
	maxKept    = 16 * maxLines    // lines of answers
	maxDumps   = 2                // calls of Each at a time
	keep       = time.Second      // how long an answer is kept for the same query, …
	keepTimes  = 50               // … or this many times as long as its walk has stopped counting, if that is longer
	restTimes  = 4                // the next walk waits this many times as long as the last one has stopped counting
	dumpRest   = 9                // each piece of Each waits this many times as long as the piece before has taken
	walkTime   = 30 * time.Second // a walk that takes longer is given up
)

// Lister makes lists. Make one with New; any goroutine may use it.
type Lister struct {
	asker asker
	now   func() time.Time
	ctx   context.Context //nolint:containedctx // of the walks: they serve several calls, and Close ends them
	stop  context.CancelFunc
	walks sync.WaitGroup

	mu         sync.Mutex
	closed     bool               // guarded by mu
	partitions map[int]*partition // guarded by mu
}

// partition is the queries about one partition; Lister.mu guards it.
type partition struct {
	number   int
	requests map[Query]*request // that wait, are being answered, or were answered a short while ago
	waiting  []Query
	walking  bool
	dumps    int
	rested   time.Time // when the next walk may begin
}

// request is a query, and its answer once done is closed.
type request struct {
	done  chan struct{}
	page  *Page
	busy  *Busy // of a query for the busiest
	err   error
	until time.Time // the answer is kept until then; zero while there is none
}

// New returns a Lister. Close must be called when it is not needed any more.
func New(a asker) *Lister {
	ctx, stop := context.WithCancel(context.Background())
	return &Lister{asker: a, now: time.Now, ctx: ctx, stop: stop, partitions: make(map[int]*partition)}
}

// Close ends all walks, and waits for them. Queries that wait get an error.
func (l *Lister) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.walks.Wait()
}

// errQuery says that a query has a NaN. Such a query equals no query: nobody would find its answer.
var errQuery = errors.New("want numbers")

// Top returns a page of the rows of a partition. The error is ctx's, one of analyzer.Ask, or ErrRulesChanged if the rules
// change all the time. The page is shared: it must not be changed.
func (l *Lister) Top(ctx context.Context, partition int, q Query) (*Page, error) {
	q.Limit = min(max(q.Limit, 1), maxLines)
	if !q.Paged {
		q.After = Key{}
	}
	if q != q {
		return nil, fmt.Errorf("list partition %d: got a query with share %v behind %v: %w", partition, q.MinShare, q.After.Value, errQuery)
	}
	r, err := l.answered(ctx, partition, q)
	if err != nil {
		return nil, err
	}
	return r.page, r.err
}

// Busy is the busiest callers of a partition: those that are admitted, and those that are blocked, by falling rate.
type Busy struct {
	At                analyzer.At
	Admitted, Blocked busiest.List
}

// Busy returns the busiest callers of a partition. It is shared: it must not be changed.
func (l *Lister) Busy(ctx context.Context, partition int) (*Busy, error) {
	r, err := l.answered(ctx, partition, Query{busiest: true})
	if err != nil {
		return nil, err
	}
	return r.busy, r.err
}

// answered waits for the answer to a query.
func (l *Lister) answered(ctx context.Context, partition int, q Query) (*request, error) {
	r, err := l.join(partition, q)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.done:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join returns the request that answers a query: an earlier one whose answer is kept or still to come, or else a new one. It starts a
// walk if none runs.
func (l *Lister) join(number int, q Query) (*request, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.partition(number)
	if r := p.requests[q]; r != nil && (r.until.IsZero() || l.now().Before(r.until)) {
		return r, nil
	}
	if len(p.waiting) >= maxQueries || l.closed {
		return nil, fmt.Errorf("list partition %d: %w", number, analyzer.ErrBusy)
	}
	r := &request{done: make(chan struct{})}
	p.requests[q] = r
	p.waiting = append(p.waiting, q)
	if !p.walking {
		p.walking = true
		l.walks.Go(func() { l.serve(p) })
	}
	return r, nil
}

// partition returns the queries about a partition; l.mu is held.
func (l *Lister) partition(number int) *partition {
	p := l.partitions[number]
	if p == nil {
		p = &partition{number: number, requests: make(map[Query]*request)}
		l.partitions[number] = p
	}
	return p
}

// Each calls yield with all rows that the filter lets through, some at a time and in no particular order: each piece is exact as of its
// own place of the log. yield may keep the lines, and counting goes on while it runs. It takes a tenth of the owner's time at most, also
// if the filter lets nothing through. The error is yield's, ctx's, one of analyzer.Ask, or ErrRulesChanged: then the pieces are not of
// one list.
func (l *Lister) Each(ctx context.Context, partition int, filter Filter, yield func(piece []Line, at analyzer.At) error) error {
	l.mu.Lock()
	p := l.partition(partition)
	if p.dumps >= maxDumps {
		l.mu.Unlock()
		return fmt.Errorf("list partition %d: %w", partition, analyzer.ErrBusy)
	}
	p.dumps++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		p.dumps--
		l.mu.Unlock()
	}()
	s := steps{asker: l.asker, partition: partition, now: l.now, places: places}
	moved, length := false, 0
	for more := true; more; {
		var piece []Line
		var err error
		pausedBefore := s.pausedFor
		more, err = s.next(ctx, func() { moved = true }, func(r *fold.Row, at analyzer.At, now int64) {
			if share := shareOf(r); filter.holds(r, share) {
				piece = append(piece, lineOf(r, share, at, now))
			}
		})
		if err == nil && moved {
			err = ErrRulesChanged
		}
		asked := l.now()
		length = max(length, len(piece))
		if err == nil {
			err = yield(piece, s.at)
		}
		if err == nil && more {
			err = pause(ctx, dumpRest*(s.pausedFor-pausedBefore)-l.now().Sub(asked))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

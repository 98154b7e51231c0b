package analyzer

import (
	"slices"
	"sync"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/schemas"
)

// decisionQueue holds the decisions and answers that wait to be published. Its methods may be called from any goroutine.
type decisionQueue struct {
	mu       sync.Mutex
	queue    outbox.Queue    // guarded by mu
	canaries []schemas.Entry // guarded by mu
	logTime  int64           // guarded by mu
}

// offer queues what the fold has changed and predicted, and canaries. It returns how many decisions are spared.
func (q *decisionQueue) offer(changes []fold.Change, plans []predict.Plan, canaries []schemas.Entry, t outbox.Terms) (spared int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.logTime = t.AsOf
	q.canaries = append(q.canaries, canaries...)
	if old := len(q.canaries) - maxProduce; old > 0 {
		q.canaries = slices.Delete(q.canaries, 0, old) // their senders do not wait for them any more
	}
	return q.queue.Offer(changes, plans, t)
}

// open queues a decision that opens a caller.
func (q *decisionQueue) open(d schemas.Decision) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.Add(d, outbox.Opened)
}

// take removes and returns what is due at now, in Unix nanoseconds, in order. With all, it also returns what is not due yet. next is when
// the next decision is due; 0 if none waits.
func (q *decisionQueue) take(now int64, all bool) (list []outbox.Item, canaries []schemas.Entry, next int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if all {
		list = q.queue.TakeAll(now)
	} else {
		list = q.queue.Take(now, 0)
	}
	canaries, q.canaries = q.canaries, nil
	next, _ = q.queue.Due()
	return list, canaries, next
}

// time returns log time, in Unix nanoseconds.
func (q *decisionQueue) time() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.logTime
}

package notify

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/analyzer/notify/webhook"
)

// Results of attempts, for Config.Observe.
const (
	ResultOK      = "ok"
	ResultStatus  = "status"  // the endpoint has answered something else than 2xx
	ResultGone    = "gone"    // it has answered 410
	ResultNetwork = "network" // it has not answered, or its address must not be dialled
)

// Results returns all results of attempts.
func Results() []string { return []string{ResultOK, ResultStatus, ResultGone, ResultNetwork} }

// Reasons for which events are dropped.
const (
	DroppedExpired  = "expired"  // attempts failed for a day
	DroppedTemplate = "template" // the template makes no message of it
)

// attempt sends a call once, and gives it back to the queue.
func (w *worker) attempt(ctx context.Context, c *call) {
	w.mu.Lock()
	settings, sender := w.settings, w.sender
	w.mu.Unlock()
	body, err := settings.Body(c.notice)
	if err != nil {
		w.drop(c, DroppedTemplate, err)
		return
	}
	began := time.Now()
	answer := sender.Send(ctx, webhook.Message{ID: c.notice.ID, Body: body}, began)
	if ctx.Err() != nil && answer.Err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queue.failed(c, began) // the partition is taken away: who has it next sends the call again
		return
	}
	result := resultOf(answer)
	w.c.Observe(Attempt{Endpoint: w.name, Took: time.Since(began), Result: result})
	switch result {
	case ResultOK:
		w.delivered(c)
	case ResultGone:
		w.gone(c, sender)
	default:
		w.failed(c, answer)
	}
}

func resultOf(a webhook.Answer) string {
	switch {
	case a.Err == nil:
		return ResultOK
	case a.Gone():
		return ResultGone
	case a.Status != 0:
		return ResultStatus
	}
	return ResultNetwork
}

// finish takes a call out of the queue and the ledgers. The caller has the lock.
func (w *worker) finish(c *call) {
	for _, i := range c.items {
		w.ledgers[i.partition].end(i.place)
	}
	w.queue.done(c, time.Now())
	w.signal()
}

func (w *worker) delivered(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish(c)
	w.stats.Delivered += uint64(len(c.items))
	if len(c.items) > 1 {
		w.stats.Digests++
	}
	if w.failing {
		w.failing = false
		w.logger().Info("can deliver again", "attempts", c.attempts+1)
	}
}

// failed decides whether a call is tried again.
func (w *worker) failed(c *call, a webhook.Answer) {
	c.attempts++
	if expired(c.attempts, c.written(), time.Now()) {
		w.drop(c, DroppedExpired, a.Err)
		return
	}
	after := pause(c.attempts, a.RetryAfter)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.failed(c, time.Now().Add(after))
	w.signal()
	if !w.failing {
		w.failing = true
		w.logger().Warn("cannot deliver, trying again", "after", after, "error", a.Err)
	}
}

// drop gives a call up.
func (w *worker) drop(c *call, reason string, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish(c)
	w.stats.Dropped[reason] += uint64(len(c.items))
	w.logger().Error("dropped events", "reason", reason, "id", c.notice.ID, "events", len(c.items), "attempts", c.attempts, "error", why)
}

// gone disables the endpoint, unless its settings have changed since the call was sent.
func (w *worker) gone(c *call, asked Sender) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.failed(c, time.Now())
	w.signal()
	if w.sender == asked && !w.disabled {
		w.disabled = true
		w.logger().Error("the endpoint wants no more messages: it is disabled until the settings change", "status", 410)
	}
}

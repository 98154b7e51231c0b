package kafkalink

import (
	"fmt"
	"log/slog"
	"sync"
)

// health knows whether a link, or what Follow does, is up, and logs when that changes. It is up while the last call of each task
// succeeded, and at least one task has made a call. The zero value, with a logger and a name, is down.
type health struct {
	logger *slog.Logger
	name   string // what the log says is up or down

	mu         sync.Mutex       // protects what follows
	failing    map[string]error // by task
	up         bool
	reported   bool // that it is down was logged
	clockAhead bool
}

// task is the name of a kind of call of a reader or sender.
func task(what string, partition int) string { return fmt.Sprintf("%s %d", what, partition) }

// note stores the outcome of a task's last call.
func (h *health) note(task string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if h.failing == nil {
			h.failing = make(map[string]error)
		}
		h.failing[task] = err
		if h.up || !h.reported {
			h.logger.Warn(h.name+" is down", "cannot", task, "error", err)
		}
		h.up, h.reported = false, true
		return
	}
	delete(h.failing, task)
	if !h.up && len(h.failing) == 0 {
		h.logger.Info(h.name + " is up")
		h.up = true
	}
}

// noteClock stores whether the brokers refuse messages because this machine's clock is ahead.
func (h *health) noteClock(ahead bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ahead && !h.clockAhead:
		h.logger.Error("this machine's clock is ahead of Kafka's: requests are not counted", "error", err)
	case !ahead && err == nil && h.clockAhead:
		h.logger.Info("this machine's clock is right again")
	case !ahead:
		return
	}
	h.clockAhead = ahead
}

// connected reports whether the link is up.
func (h *health) connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.up
}

// forget is called at the end of a link: one that does not run has no failures.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failing, h.up, h.reported = nil, false, false
}

package kafkalink

import (
	"fmt"
	"log/slog"
	"sync"
)

// health knows whether the link is up, and tells the log when that changes. It is up while everybody's last call
// succeeded, and somebody's has. The zero value, with a logger, is down.
type health struct {
	logger *slog.Logger

	mu         sync.Mutex       // protects what follows
	failing    map[string]error // by who
	up         bool
	told       bool // the log was told that it is down
	clockAhead bool
}

func who(what string, partition int) string { return fmt.Sprintf("%s %d", what, partition) }

// note says how somebody's call went.
func (h *health) note(who string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if h.failing == nil {
			h.failing = make(map[string]error)
		}
		h.failing[who] = err
		if h.up || !h.told {
			h.logger.Warn("kafka link is down", "cannot", who, "error", err)
		}
		h.up, h.told = false, true
		return
	}
	delete(h.failing, who)
	if !h.up && len(h.failing) == 0 {
		h.logger.Info("kafka link is up")
		h.up = true
	}
}

// noteClock says whether the brokers refuse messages because this machine's clock is ahead.
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

// forget is for the end of Run: nobody fails who does not run.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failing, h.up, h.told = nil, false, false
}

package analyzer

import (
	"log/slog"
	"sync"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
)

// closeLines is how many closes and warnings the log of an analyzer shows each second. Further ones of that second are only counted, so
// that a flood of callers does not become a flood of lines.
const closeLines = 50

// closeLog logs callers that are closed, and callers that cross a share of a limit at which its rule warns. The owners of an analyzer share
// one. Any goroutine may use it.
type closeLog struct {
	logger *slog.Logger

	mu       sync.Mutex
	began    time.Time // guarded by mu: when the second under way began
	lines    int       // guarded by mu: closes and warnings in that second
	closes   uint64    // guarded by mu: closes in that second that were not logged
	warnings uint64    // guarded by mu: warnings in that second that were not logged
}

func newCloseLog(l *slog.Logger) *closeLog { return &closeLog{logger: l} }

// add logs the closes and warnings among the changes of a partition.
func (l *closeLog) add(partition int, changes []fold.Change, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		warns := c.Kind == policy.Same && c.Warn > 0
		if (c.Kind != policy.Closed || c.GoesOn) && !warns {
			continue
		}
		l.turn(now)
		switch l.lines++; {
		case l.lines <= closeLines && warns:
			l.logger.Info("warning", "partition", partition, "rule", c.Rule.Name, "caller", c.Caller.String(), "mode", c.Rule.Mode.String(),
				"share", c.Warn, "count", c.Count.Total, "limit", c.Limit)
		case l.lines <= closeLines:
			l.logger.Info("closed", "partition", partition, "rule", c.Rule.Name, "caller", c.Caller.String(), "mode", c.Rule.Mode.String(),
				"count", c.Count.Total, "limit", c.Limit, "until", time.Unix(0, c.Closure.Until).UTC())
		case warns:
			l.warnings++
		default:
			l.closes++
		}
	}
}

// flush logs how many closes and warnings were not logged, when their second is over.
func (l *closeLog) flush(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closes+l.warnings > 0 {
		l.turn(now)
	}
}

// turn begins a new second if the one under way is over. The caller holds mu.
func (l *closeLog) turn(now time.Time) {
	if since := now.Sub(l.began); since >= 0 && since < time.Second {
		return
	}
	if l.closes+l.warnings > 0 {
		l.logger.Info("more callers closed or warned than the log shows", "since", l.began.UTC(), "closes", l.closes, "warnings", l.warnings)
	}
	l.began, l.lines, l.closes, l.warnings = now, 0, 0, 0
}

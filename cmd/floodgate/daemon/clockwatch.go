package daemon

import (
	"context"
	"log/slog"
	"time"
)

// clockWatch warns when the clock of this host is set back: what comes then is older than what was counted, and too late for short windows.
type clockWatch struct {
	newest time.Time // that was seen, of the wall clock
	behind bool
	logger *slog.Logger
}

// clockSlack is how far a clock may go back without a word: time servers correct clocks by milliseconds.
const clockSlack = 2 * time.Second

// run looks each second until ctx ends.
func (w *clockWatch) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		w.look(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *clockWatch) look(now time.Time) {
	now = now.Round(0) // without the monotonic clock
	back := w.newest.Sub(now)
	switch {
	case back <= 0:
		if w.behind {
			w.logger.Info("the clock is where it was before it was set back")
		}
		w.newest, w.behind = now, false
	case back > clockSlack && !w.behind:
		w.behind = true
		w.logger.Warn("the clock was set back: requests count as late in windows that are shorter than that, until the clock is where it was",
			"by", back.Round(time.Second).String(), "was", w.newest.UTC().Format(time.RFC3339))
	}
}

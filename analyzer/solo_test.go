package analyzer

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio/solo"
)

// TestAnAnalyzerWithoutAGroup counts, decides, shuts down and goes on from its store. A process that is stopped and goes on later still has
// its lease, because nobody else can have its partitions.
func TestAnAnalyzerWithoutAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Fold.Partitions = 1
		dir := filepath.Dir(w.conf.Dir)
		for run := range 2 {
			a := New(w.log, Config{Dir: dir, Owner: w.conf, Join: func() (Membership, error) { return solo.New(1), nil }})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- a.Run(ctx) }()
			time.Sleep(time.Second)
			if ready, leased := a.Ready(time.Now()), a.lease.valid(time.Now().Add(24*time.Hour)); !ready || !leased {
				t.Errorf("run %d: got ready %v, and a lease after a day of sleep %v; want both", run, ready, leased)
			}
			w.prod.send(time.Now(), "a", "a")
			time.Sleep(2 * time.Second)
			closed := false
			for _, r := range w.log.decisions(t) {
				closed = closed || r.Decision != nil && r.Decision.Caller.ID == "a" && r.Decision.Until > 0
			}
			if closed != (run == 1) {
				t.Errorf("run %d: got closed %v after %d requests of 3", run, closed, 2*(run+1))
			}
			stop()
			if err := <-done; err != nil {
				t.Errorf("run %d: got %v, want nil", run, err)
			}
		}
		if got := w.counts("r")["a"]; got != 4 {
			t.Errorf("got %d requests in the store, want 4", got)
		}
	})
}

package analyzer

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// shortLog is a log of which nothing can be had for now from an offset of requests on.
type shortLog struct {
	*testLog
	until int64
}

func (s shortLog) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	if r.Topic == "requests" && r.Offset >= s.until {
		select {
		case <-time.After(r.MaxWait):
			return kafkaio.Batch{Next: r.Offset}, nil
		case <-ctx.Done():
			return kafkaio.Batch{}, ctx.Err()
		}
	}
	return s.testLog.Fetch(ctx, r)
}

const (
	oneRule  = "version: 1\nrules:\n  - {name: r, callers: key, limit: 1000000, window: 1000h, algorithm: fixed}\n"
	twoRules = oneRule + "  - {name: late, callers: key, limit: 1000000, window: 1000h, algorithm: fixed}\n"
)

// endAsChanged changes the rules of a running owner, and stops it before it can write another snapshot.
func (w *world) endAsChanged(set *rules.Set) {
	w.t.Helper()
	w.owner.SetRules(set)
	time.Sleep(10 * time.Millisecond)
	w.end()
	w.conf.Rules = set
}

// diesRestoring runs an owner that restores up to an offset, commits that, and dies.
func (w *world) diesRestoring(until int64) {
	w.t.Helper()
	ctx, die := context.WithCancel(w.t.Context())
	o := NewOwner(shortLog{w.log, until}, w.conf)
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	time.Sleep(10 * time.Second)
	if s := o.Stats(); s.State != stateRestoring || s.Committed == 0 || s.Committed > until+10 {
		w.t.Errorf("got %v, committed up to %d, want it restoring at about %d", s.State, s.Committed, until)
	}
	die()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		w.t.Errorf("owner: %v", err)
	}
}

// TestAKillAmidRefoldingForgetsNoChangeOfRules: a log that was counted by two sets of rules is being counted again when the
// analyzer dies, before it comes to where they changed. The next one, which finds a store that is good and its own, goes
// on by the rules of then: it once counted the rest by today's, so that a rule counted requests from before it was made.
func TestAKillAmidRefoldingForgetsNoChangeOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules, w.conf.Checkpoint = mustRules(t, oneRule), 100*time.Millisecond
		w.start()
		time.Sleep(2 * time.Second) // for a snapshot of nothing
		for range 300 {
			w.prod.send(time.Now(), "a")
		}
		time.Sleep(time.Second)
		w.endAsChanged(mustRules(t, twoRules))
		for range 100 {
			w.prod.send(time.Now(), "a")
		}
		for range 3 { // and dies again
			w.wipe()
			w.diesRestoring(150)
			w.diesRestoring(200)
		}
		w.atRest()
		w.wantCounts(map[string]int64{"a": 400})
		if got := w.counts("late")["a"]; got != 100 {
			t.Errorf("the rule that was made after 300 of 400 requests: got %d counted, want 100", got)
		}
		w.wantExact()
	})
}

// TestRulesThatChangeTwiceBetweenRequestsLeaveTheSameRows: what the first change did remains, also where the log is counted
// again. The limit first closes the caller and then lets it go, who has then been closed once.
func TestRulesThatChangeTwiceBetweenRequestsLeaveTheSameRows(t *testing.T) {
	limited := func(limit string) *rules.Set {
		return mustRules(t, "version: 1\nrules:\n  - {name: r, callers: key, limit: "+limit+
			", window: 1000h, algorithm: fixed, close_for: 1m, escalate: {factor: 2, max: 1h, forget: 24h}}\n")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = limited("5")
		w.start()
		time.Sleep(2 * time.Second)
		w.prod.send(time.Now(), "a", "a", "a")
		time.Sleep(time.Second)
		w.owner.SetRules(limited("2"))
		time.Sleep(10 * time.Millisecond)
		w.endAsChanged(limited("10"))
		w.wantExact()
		w.wipe()
		w.prod.send(time.Now(), "a")
		w.atRest()
		w.wantCounts(map[string]int64{"a": 4})
		w.wantExact()
		w.conf.Rules = limited("3") // while nobody runs
		w.atRest()
		w.wantExact()
	})
}

func (w *world) wipe() {
	w.t.Helper()
	if err := os.RemoveAll(w.conf.Dir); err != nil {
		w.t.Fatal(err)
	}
}

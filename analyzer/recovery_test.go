package analyzer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// atRest runs an owner over what the log holds, and stops it.
func (w *world) atRest() fold.Stats {
	w.t.Helper()
	w.start()
	time.Sleep(2 * time.Second)
	w.end()
	return w.owner.Stats().Fold
}

func (w *world) wantCounts(want map[string]int64) {
	w.t.Helper()
	if got := w.counts("r"); !maps.Equal(got, want) {
		w.t.Errorf("store: got %v, want %v", got, want)
	}
}

func TestAWipedStoreIsRebuiltFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prod.send(time.Now(), "a", "b", "a")
		w.atRest()
		if err := os.RemoveAll(w.conf.Dir); err != nil {
			t.Fatal(err)
		}
		w.prod.send(time.Now(), "b")
		w.atRest()
		w.wantCounts(map[string]int64{"a": 2, "b": 2})
	})
}

func TestALogThatWasCreatedAgainIsCountedAgain(t *testing.T) {
	for name, again := range map[string]int{"shorter": 1, "longer": 5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.prod.send(time.Now(), "a")
				w.prod.send(time.Now(), "a")
				w.atRest()
				w.log.Recreate("requests")
				w.prod.id = schemas.ProducerID{2}
				for range again {
					w.prod.send(time.Now(), "b")
				}
				w.atRest()
				w.wantCounts(map[string]int64{"b": int64(again)})
				aside, err := filepath.Glob(filepath.Join(filepath.Dir(w.conf.Dir), "0.*"))
				if err != nil || len(aside) != 1 {
					t.Errorf("stores moved aside: got %v, %v, want one", aside, err)
				}
			})
		})
	}
}

// TestALogThatIsCutIsNoticedSoon is fault row 20: the log ends before what a running owner has counted.
func TestALogThatIsCutIsNoticedSoon(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, 123 * time.Millisecond, 499 * time.Millisecond, 500 * time.Millisecond, 1777 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.start()
			for range 10 {
				w.prod.send(time.Now(), "a")
			}
			time.Sleep(3*time.Second + wait)
			w.log.Cut("requests", 0, 4)
			began := time.Now()
			if err := <-w.done; !errors.Is(err, kafkaio.ErrTruncated) {
				t.Errorf("got %v, want %v", err, kafkaio.ErrTruncated)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("noticed after %v, want at most 2s", took)
			}
			w.stop()
			w.atRest()
			w.wantCounts(map[string]int64{"a": 4})
		})
	}
}

func TestRetentionThatOvertakesIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prod.send(time.Now(), "a")
		w.atRest()
		for range 3 {
			w.prod.send(time.Now(), "a")
		}
		w.log.Trim("requests", 0, 3) // offsets 1 and 2 are gone
		if got := w.atRest().Lost; got != 2 {
			t.Errorf("lost: got %d records reported, want 2", got)
		}
		w.wantCounts(map[string]int64{"a": 2})
	})
}

func TestABrokenStoreIsMovedAsideAndRebuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prod.send(time.Now(), "a", "a")
		w.atRest()
		tables, err := filepath.Glob(filepath.Join(w.conf.Dir, "*.sst"))
		if err != nil || len(tables) == 0 {
			t.Fatalf("tables: got %v, %v, want some", tables, err)
		}
		for _, path := range tables {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range min(len(b), 64) {
				b[i] ^= 0xff
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w.atRest()
		w.wantCounts(map[string]int64{"a": 2})
	})
}

func TestKafkaAwayAtTheStartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.prod.send(time.Now(), "a", "a", "a")
		w.log.SetDown(true)
		w.start()
		time.Sleep(time.Minute)
		if s := w.owner.Stats().State; s == stateRunning {
			t.Error("owner runs without Kafka")
		}
		w.log.SetDown(false)
		time.Sleep(5 * time.Second)
		w.end()
		w.wantCounts(map[string]int64{"a": 3})
	})
}

func TestNothingIsPublishedBeforeReconciling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 50 { // windows long past, each of which closed its caller
			w.prod.send(time.Now().Add(time.Duration(i-500)*time.Minute), "a", "a", "a")
		}
		w.prod.send(time.Now(), "b", "b", "b")
		w.atRest()
		n := 0
		for _, r := range w.log.decisions(t) {
			if r.Decision != nil {
				n++
				if r.Decision.Caller.ID != "b" {
					t.Errorf("published %+v, want nothing that is over", r.Decision)
				}
			}
		}
		if n != 1 {
			t.Errorf("got %d decisions, want the one in force", n)
		}
	})
}

const fiveAMinute = `
version: 1
rules:
  - {name: r, callers: key, limit: 5, window: 1m, algorithm: fixed, close_for: 30s}
`

func TestRulesThatChangeWhileRunningKeepCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		time.Sleep(time.Second)
		w.prod.send(time.Now(), "a", "a", "a", "b", "b")
		time.Sleep(time.Second)
		closed := func() map[string]int64 { return w.log.follow(t, time.Now().UnixNano()).closed }
		if got := closed(); len(got) != 1 {
			t.Fatalf("closed under a limit of 3: got %v, want key:a", got)
		}
		w.owner.SetRules(mustRules(t, fiveAMinute))
		time.Sleep(2 * time.Second)
		if got := closed(); len(got) != 0 {
			t.Errorf("closed under a limit of 5: got %v, want nobody", got)
		}
		w.prod.send(time.Now(), "a", "a", "b")
		time.Sleep(2 * time.Second)
		if got := closed(); len(got) != 1 || got["r key:a"] == 0 {
			t.Errorf("closed after 2 more: got %v, want key:a at 5 of 5", got)
		}
		w.owner.SetRules(mustRules(t, threeAMinute))
		time.Sleep(2 * time.Second)
		if got := closed(); len(got) != 2 {
			t.Errorf("closed under a limit of 3 again: got %v, want both", got)
		}
		w.end()
		w.wantCounts(map[string]int64{"a": 5, "b": 3})
	})
}

func TestRulesThatChangedWhileNobodyRanAreAppliedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		time.Sleep(time.Second)
		w.prod.send(time.Now(), "a", "a", "a", "b", "b")
		time.Sleep(time.Second)
		w.end()
		w.conf.Rules = mustRules(t, fiveAMinute)
		w.start()
		time.Sleep(3 * time.Second)
		if got := w.log.follow(t, time.Now().UnixNano()).closed; len(got) != 0 {
			t.Errorf("closed under a limit of 5: got %v, want nobody", got)
		}
		w.end()
		w.wantCounts(map[string]int64{"a": 3, "b": 2})
	})
}

// fullDisk is a store whose disk is full until told otherwise.
type fullDisk struct {
	rowStore
	full *atomic.Bool
}

// fullDisks opens stores on a disk that is full until told otherwise.
func fullDisks(full *atomic.Bool) func(string, store.Options) (rowStore, error) {
	return func(dir string, o store.Options) (rowStore, error) {
		if full.Load() {
			return nil, fmt.Errorf("open: %w", store.ErrNoSpace)
		}
		s, err := openStore(dir, o)
		return fullDisk{s, full}, err
	}
}

func (f fullDisk) Commit(c store.Checkpoint, changes []store.Change) error {
	if f.full.Load() {
		return fmt.Errorf("commit: %w", store.ErrNoSpace)
	}
	return f.rowStore.Commit(c, changes)
}

func TestAFullDiskDoesNotStopDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		w := newWorld(t)
		w.setup = func(o *Owner) { o.ledger.openStore = fullDisks(&full) }
		w.start()
		w.prod.send(time.Now(), "a")
		time.Sleep(time.Second)
		full.Store(true)
		w.prod.send(time.Now(), "a", "a", "b")
		time.Sleep(3 * time.Second)
		if got := w.log.follow(t, time.Now().UnixNano()).closed; len(got) != 1 {
			t.Errorf("closed: got %v, want key:a", got)
		}
		if s := w.owner.Stats().State; s != stateMemoryOnly {
			t.Errorf("state: got %v, want %v", s, stateMemoryOnly)
		}
		member := New(nil, Config{SessionTimeout: time.Minute})
		member.owners[0] = &ownerRun{owner: w.owner}
		member.lease.renew(time.Now())
		if !member.Ready(time.Now()) {
			t.Error("got an analyzer that is not ready, want it ready: it decides, and nobody else would do better")
		}
		w.prod.send(time.Now(), "b", "c")
		time.Sleep(3 * time.Second)
		full.Store(false)
		time.Sleep(3 * time.Second)
		if s := w.owner.Stats().State; s != stateRunning {
			t.Errorf("state with space again: got %v, want %v", s, stateRunning)
		}
		w.end()
		w.wantCounts(map[string]int64{"a": 3, "b": 2, "c": 1})
	})
}

func TestADiskThatStaysFullIsReportedAndCostsNoCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		w := newWorld(t)
		w.setup = func(o *Owner) { o.ledger.openStore = fullDisks(&full) }
		w.start()
		w.prod.send(time.Now(), "a")
		time.Sleep(time.Second)
		full.Store(true)
		w.prod.send(time.Now(), "a", "b")
		time.Sleep(time.Second)
		w.stop()
		if err := <-w.done; !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("owner: got %v, want it to say that counts are not committed", err)
		}
		full.Store(false)
		w.atRest()
		w.wantCounts(map[string]int64{"a": 2, "b": 1})
	})
}

// A checkpoint that does not fit one transaction is split; whenever it is cut short, the store says so.
func TestALargeCheckpointIsWholeOrIncomplete(t *testing.T) {
	dir := t.TempDir() + "/0"
	s, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	n := 2*s.MaxChanges() + 10
	j := checkpointJob{at: store.Checkpoint{Next: 7}}
	for i := range n {
		key := fold.AppendRowKey(nil, "r", "key", string(rune('a'+i%26))+time.Duration(i).String())
		j.changes = append(j.changes, store.Change{Key: key, Value: []byte{1}})
	}
	if got := fitting(s, j.changes); got >= n {
		t.Fatalf("fitting: got %d of %d changes, want fewer", got, n)
	}
	first := checkpointJob{at: j.at, changes: j.changes}
	first.at.Next = store.Incomplete
	if err := s.Commit(first.at, first.changes[:fitting(s, first.changes)]); err != nil {
		t.Fatal(err) // as if cut short here
	}
	if got := s.Checkpoint().Next; got != store.Incomplete {
		t.Errorf("cut short: got next offset %d, want %d", got, store.Incomplete)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(dir, store.Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	rest, err := commit(s, j)
	if err != nil || len(rest.changes) != 0 {
		t.Fatalf("commit: got %v and %d changes left, want none", err, len(rest.changes))
	}
	if at := s.Checkpoint(); at.Next != 7 || at.Rows != int64(n) {
		t.Errorf("committed: got %+v, want offset 7 and %d rows", at, n)
	}
	if err := errors.Join(s.Check(), s.Close()); err != nil {
		t.Error(err)
	}
}

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
	t.Parallel()
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

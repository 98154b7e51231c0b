package analyzer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// partsStore is a store that notes the next offset of each commit.
type partsStore struct {
	rowStore
	next []int64
}

func (s *partsStore) Commit(c store.Checkpoint, changes []store.Change) error {
	s.next = append(s.next, c.Next)
	return s.rowStore.Commit(c, changes)
}

// closeAll folds messages that close so many callers at their first request, and queues the events.
func closeAll(t *testing.T, l *ledger, callers, messages int) {
	t.Helper()
	for m := range messages {
		f := foldtest.Frame(uint64(m)+1, foldtest.Now)
		for i := range callers / messages {
			f.Entries = append(f.Entries, schemas.Entry{Time: foldtest.Now, Kind: "key", ID: fmt.Sprintf("c%d-%d", m, i), Count: 1})
		}
		record := kafkaio.Record{Offset: int64(m), Time: foldtest.Now, Value: foldtest.Encode(t, f)}
		if refused, err := l.count(&record); refused != nil || err != nil {
			t.Fatalf("message %d: %v, %v", m, refused, err)
		}
		l.describe(byMessage)
	}
}

// TestAFullQueueOfEventsAndHalfACommitOfRowsAreSplit: the topic of events has taken nothing for long, and a checkpoint with all that waits
// there has more rows than one transaction takes. It is split, and nothing of it is missing from the store.
func TestAFullQueueOfEventsAndHalfACommitOfRowsAreSplit(t *testing.T) {
	t.Parallel()
	const callers, messages = eventlog.MaxPending, 4
	conf := newWorld(t).conf.withDefaults()
	conf.Rules = mustRules(t, "version: 1\nrules:\n  - {name: r, callers: key, limit: 1, window: 1000h, algorithm: fixed}\n")
	l, parts := newLedger(conf), &partsStore{}
	l.openStore = func(dir string, o store.Options) (_ rowStore, err error) {
		parts.rowStore, err = openStore(dir, o)
		return parts, err
	}
	if err := l.load(); err != nil {
		t.Fatal(err)
	}
	l.commits = newCommitter(l.store, l.config.Sync, l.took)
	ended := make(chan struct{})
	go func() { defer close(ended); l.commits.run() }()
	l.enter(stateRunning)
	l.beginEvents(0, 0, nil)
	closeAll(t, l, callers, messages)
	dirty, waiting := l.fold.Dirty(), l.events.Stats()
	if most := l.store.MaxChanges(); len(parts.next) != 0 || dirty < most/2 || waiting.Pending != eventlog.MaxPending || waiting.Gaps != 0 || dirty+waiting.Pending < most {
		t.Fatalf("got %d commits, %d dirty rows and %+v, want no commit, and more than the %d rows of one", len(parts.next), dirty, waiting, most)
	}
	last := kafkaio.Record{Offset: messages, Time: foldtest.Now, Value: foldtest.Encode(t, foldtest.Frame(messages+1, foldtest.Now+int64(time.Second)))}
	if _, err := l.count(&last); err != nil {
		t.Fatalf("count one more: %v", err)
	}
	if n := len(parts.next); n < 2 || parts.next[n-1] != messages || slices.IndexFunc(parts.next[:n-1], func(next int64) bool { return next != store.Incomplete }) >= 0 {
		t.Errorf("got commits with the next offsets %v, want %d at the end, and %d before", parts.next, messages, store.Incomplete)
	}
	l.commits.close()
	<-ended
	if err := l.store.Close(); err != nil {
		t.Fatal(err)
	}
	wantRestored(t, conf, messages, callers)
}

// wantRestored wants a store with a row and an event of each caller.
func wantRestored(t *testing.T, conf OwnerConfig, next int64, callers int) {
	t.Helper()
	l := newLedger(conf)
	if err := l.load(); err != nil {
		t.Fatal(err)
	}
	rows := 0
	l.fold.View().Rows(l.fold.LogTime(), func(r fold.Row) bool {
		if r.Total == 1 {
			rows++
		}
		return true
	})
	l.beginEvents(0, next, nil)
	events := make(map[string]bool)
	list, _ := l.events.Batch(2 * callers)
	for _, e := range list {
		events[e.Caller.ID] = true
	}
	if got := l.store.Checkpoint().Next; got != next || rows != callers || len(events) != callers || l.events.Stats().Gaps != 0 {
		t.Errorf("got offset %d, %d rows, events of %d callers and %+v, want %d, and %d of each", got, rows, len(events), l.events.Stats(), next, callers)
	}
	if err := errors.Join(l.store.(*store.Store).Check(), l.store.Close()); err != nil {
		t.Error(err)
	}
}

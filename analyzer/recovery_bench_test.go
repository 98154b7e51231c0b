package analyzer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// quickLog is a testLog that fetches large batches, as a broker does.
type quickLog struct{ *testLog }

func (l quickLog) fill(b testing.TB, frames, entries int) {
	b.Helper()
	all := foldtest.ZipfEntries(frames * entries)
	for n := range frames {
		now := all[(n+1)*entries-1].Time
		value := foldtest.Encode(b, foldtest.Frame(uint64(n+1), now, all[n*entries:(n+1)*entries]...))
		l.Append("requests", 0, kafkaio.Message{Time: now, Value: value})
	}
}

// BenchmarkRebuild is an owner without a store that folds a log of 1000 frames of 1000 entries, Zipf over a million
// callers, and commits it with fsync.
func BenchmarkRebuild(b *testing.B) {
	const frames, entries = 1000, 1000
	log := quickLog{newTestLog()}
	log.SetMaxRecords(20)
	log.fill(b, frames, entries)
	for b.Loop() {
		o := NewOwner(log, OwnerConfig{
			Requests: "requests", Decisions: "decisions", Control: "control", Dir: b.TempDir(), Rules: foldtest.Rules(b, foldtest.BenchRules()["sliding"]),
		})
		runUntil(b, o, frames)
	}
	b.ReportMetric(frames*entries*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// runUntil runs an owner until it decides and has folded and committed all.
func runUntil(b *testing.B, o *Owner, next int64) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	for o.Stats().State != stateRunning || o.Next() < next {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWarmOpen is an owner with a store of 500 000 rows, from nothing to deciding.
func BenchmarkWarmOpen(b *testing.B) {
	const rows = 500_000
	dir := b.TempDir() + "/0"
	s, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	set := foldtest.Rules(b, foldtest.BenchRules()["sliding"])
	f := fold.New(set, fold.Options{MaxRows: rows})
	now := time.Now().UnixNano()
	for i := range rows {
		f.Entry(&schemas.Entry{Time: now, Kind: "ip", ID: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Count: 1})
	}
	if _, err := commit(s, checkpointJob{at: store.Checkpoint{Next: 1, RulesID: set.ID(), LogTime: now}, changes: f.TakeDirty()}); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		o := NewOwner(newTestLog(), OwnerConfig{Requests: "requests", Decisions: "decisions", Dir: dir, Rules: set, Fold: fold.Options{MaxRows: rows}})
		began := time.Now()
		if err := o.ledger.open(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/open")
		if o.ledger.fold.Stats().Rows != rows {
			b.Fatalf("got %d rows, want %d", o.ledger.fold.Stats().Rows, rows)
		}
		o.ledger.closeStore()
	}
}

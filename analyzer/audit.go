package analyzer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Errors of Audit. Test with errors.Is.
var (
	// ErrOtherRules says that the store was counted by other rules than the audit was given.
	ErrOtherRules = errors.New("store was counted by other rules")
	// ErrOtherLog says that the store was counted from another log: the topic was made anew, or it is another cluster's.
	ErrOtherLog = errors.New("store was counted from another log")
	// ErrIncomplete says that the store's last checkpoint was cut short. Its analyzer will rebuild it.
	ErrIncomplete = errors.New("store holds part of a checkpoint")
)

// DefaultSkew is how much older than its neighbours in the log a message may be, for Audit to tell which windows began
// after the log does.
const DefaultSkew = time.Minute

// AuditConfig configures Audit.
type AuditConfig struct {
	Fold     FoldOptions // as the analyzer's whose store it is; Partition and Partitions say which one is audited
	Requests string      // topic
	State    string      // topic, which tells of changes of rules; empty if it can't be read
	Dir      string      // of the partition's store, which nobody may have open
	Rules    *rules.Set  // that the store was counted by
	Skew     time.Duration
	Store    store.Options
	Logger   *slog.Logger                // nil discards
	Progress func(folded, records int64) // called now and then; nil is nobody
}

// Audit counts a partition's log once more, from the first record that it retains to the store's checkpoint, with the
// Fold that an owner counts with, and compares what comes out with the store, row by row. The store is not changed.
//
// It returns an error where the two can't be compared at all: ErrOtherRules, ErrOtherLog, ErrLogTruncated,
// ErrIncomplete, store.ErrLocked, and what reading the log or the store says.
func Audit(ctx context.Context, log Log, c AuditConfig) (AuditReport, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Skew == 0 {
		c.Skew = DefaultSkew
	}
	s, err := store.Open(c.Dir, c.Store)
	if err != nil {
		return AuditReport{}, fmt.Errorf("open store: %w", err)
	}
	a := &audit{config: c, log: log, at: s.Checkpoint(), rows: make(map[string]string)}
	report, err := a.run(ctx, s)
	if closing := s.Close(); err == nil && closing != nil {
		err = fmt.Errorf("close store: %w", closing)
	}
	return report, err
}

// audit is one partition being audited.
type audit struct {
	config AuditConfig
	log    Log
	at     store.Checkpoint
	fold   *Fold
	rows   map[string]string // what a store would hold that had been written from nothing: values by key

	first   int64 // the first record that the log retains
	records int   // folded
	horizon int64 // the newest time that a message before the first retained one may bear
	changed int64 // the newest log time that was counted by earlier rules that are not known

	known   bool        // all rules that counted the log are
	changes ruleHistory // those still to come
}

func (a *audit) run(ctx context.Context, s *store.Store) (AuditReport, error) {
	report := AuditReport{Partition: a.config.Fold.Partition, Dir: a.config.Dir, To: a.at.Next}
	switch {
	case a.at == (store.Checkpoint{}):
		return report, nil // nothing was counted yet
	case a.at.Next == incomplete:
		return report, ErrIncomplete
	case a.at.RulesID != a.config.Rules.ID():
		return report, fmt.Errorf("%w: got rules %016x, want %016x", ErrOtherRules, a.config.Rules.ID(), a.at.RulesID)
	}
	start, end, err := a.log.Range(ctx, a.config.Requests, a.config.Fold.Partition)
	if err != nil {
		return report, fmt.Errorf("read the log's range: %w", err)
	}
	if a.at.Next > end {
		return report, fmt.Errorf("%w: got offset %d as its end, want %d", ErrLogTruncated, end, a.at.Next)
	}
	a.first, a.horizon, a.changed = start, math.MinInt64, math.MinInt64
	a.fold = NewFold(a.config.Rules, a.config.Fold)
	if err := a.history(ctx); err != nil {
		return report, err
	}
	if err := a.recount(ctx); err != nil {
		return report, fmt.Errorf("recount the log: %w", err)
	}
	report.From, report.LogTime = min(start, a.at.Next), a.at.LogTime
	report.Log = a.fold.Stats()
	return report, a.compare(s, &report)
}

// recount folds what the log retains, up to the checkpoint.
func (a *audit) recount(ctx context.Context) error {
	if a.first >= a.at.Next {
		a.horizon = math.MaxInt64
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := newFetcher(a.log, OwnerConfig{Fold: a.config.Fold, Requests: a.config.Requests, Logger: a.config.Logger}, a.first)
	var g errgroup.Group
	g.Go(func() error { f.run(ctx); return nil })
	err := a.foldAll(ctx, f)
	cancel()
	_ = g.Wait() // returns no error
	if err != nil {
		return err
	}
	a.rulesAt(a.at.Next)         // that changed after the last record
	a.fold.advance(a.at.LogTime) // where the newest entry is among those that the log no longer holds
	a.collect()
	return nil
}

func (a *audit) foldAll(ctx context.Context, f *fetcher) error {
	for next := a.first; next < a.at.Next; {
		var b fetched
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b = <-f.batches:
		}
		switch {
		case b.err != nil:
			return b.err
		case b.lost > 0:
			return fmt.Errorf("the log lost %d records while it was read, try again", b.lost)
		}
		for _, s := range b.batch.Skipped {
			if s.Reason != kafkaio.SkipControl {
				a.fold.stats.Rejected[string(s.Reason)] += uint64(max(1, s.To-s.From+1)) // ≥ 1
			}
		}
		for i := range b.batch.Records {
			r := &b.batch.Records[i]
			if r.Offset >= a.at.Next {
				break
			}
			if r.Offset == a.at.TailOffset && castagnoli(r.Value) != a.at.TailCRC {
				return fmt.Errorf("%w: offset %d, the last that was counted, is another record", ErrOtherLog, r.Offset)
			}
			a.foldRecord(Record{Offset: r.Offset, Time: r.Time, Value: r.Value})
		}
		next = max(next, b.batch.Next)
		if a.config.Progress != nil {
			a.config.Progress(min(next, a.at.Next)-a.first, a.at.Next-a.first)
		}
	}
	return nil
}

// neighbours is how many messages at the log's start are looked at to tell how new those before them may be.
const neighbours = 64

// collectAt is how many rows may have changed before they are collected.
const collectAt = 10_000

func (a *audit) foldRecord(r Record) {
	if a.first > 0 && a.records < neighbours {
		a.horizon = max(a.horizon, r.Time+int64(a.config.Skew))
	}
	a.records++
	a.rulesAt(r.Offset)
	_ = a.fold.Frame(r) // a record that is refused was refused by the owner too, and is in the stats
	a.fold.TakeChanges()
	a.fold.TakeCanaries()
	if !a.known && r.Offset < a.at.RulesFrom {
		a.changed = max(a.changed, a.fold.LogTime())
	}
	if a.fold.Dirty() >= collectAt {
		a.collect()
	}
}

// collect does to a.rows what a checkpoint does to a store.
func (a *audit) collect() {
	for _, c := range a.fold.TakeDirty() {
		if c.Value == nil {
			delete(a.rows, string(c.Key))
		} else {
			a.rows[string(c.Key)] = string(c.Value)
		}
	}
}

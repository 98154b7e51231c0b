package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Errors of Run. Test with errors.Is.
var (
	// ErrOtherRules says that the store was counted by other rules than the audit was given.
	ErrOtherRules = errors.New("store was counted by other rules")
	// ErrOtherLog says that the store was counted from another log: the topic was made anew, or it is another cluster's.
	ErrOtherLog = errors.New("store was counted from another log")
	// ErrReplaced says that the store is that of an owner that went on after it was replaced. Its analyzer will rebuild it.
	ErrReplaced = errors.New("store was counted by an owner that was replaced")
	// ErrIncomplete says that the store's last checkpoint was cut short. Its analyzer will rebuild it.
	ErrIncomplete = errors.New("store holds part of a checkpoint")
)

// skew is how much older than its neighbours in the log a message may be. An audit uses it to find out which windows began after the log
// did.
const skew = time.Minute

// Config configures an audit.
type Config struct {
	Fold     fold.Options // as the analyzer's whose store it is; Partition and Partitions say which one is audited
	Requests string       // topic
	Control  string       // topic of what people have decided by hand, and where it was applied; empty if it can't be read
	Dir      string       // of the partition's store, which nobody may have open
	Rules    *rules.Set   // that the store was counted by
	Store    store.Options
	Logger   *slog.Logger                // nil discards
	Progress func(folded, records int64) // called now and then; nil: not called
}

// Run counts a partition's log once more, from the first record that it retains to the store's checkpoint, with the fold
// that an owner counts with, and compares what comes out with the store, row by row. The store is not changed.
//
// It returns an error where the two can't be compared at all: ErrOtherRules, ErrOtherLog, ErrIncomplete,
// kafkaio.ErrTruncated where the log ends before the checkpoint, store.ErrLocked, and the errors of reading log and store.
func Run(ctx context.Context, log kafkaio.Fetcher, c Config) (Report, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := store.Open(c.Dir, c.Store)
	if err != nil {
		return Report{}, fmt.Errorf("open store: %w", err)
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
	config Config
	log    kafkaio.Fetcher
	at     store.Checkpoint
	fold   *fold.Fold
	rows   map[string]string // the rows of a store that only the recount has written: values by key

	brought bool  // the partition begins with frames that say that its counts were brought from another log (schemas.Migrated)
	first   int64 // the first record that the log retains, behind such frames
	records int   // folded
	horizon int64 // the newest time that a message before the first retained one may bear
	changed int64 // the newest log time that was counted by earlier rules that are not known

	steps        []control.Step        // what the analyzer has applied, and the recount not yet
	sets         map[uint64]*rules.Set // all rules that counted the log; nil if some are not known
	lostControls bool                  // some of what was applied could not be read
}

func (a *audit) run(ctx context.Context, s *store.Store) (Report, error) {
	report := Report{Partition: a.config.Fold.Partition, Dir: a.config.Dir, To: a.at.Next}
	switch {
	case a.at == (store.Checkpoint{}):
		return report, nil // nothing was counted yet
	case a.at.Next == store.Incomplete:
		return report, ErrIncomplete
	case a.at.RulesID != a.config.Rules.ID():
		return report, fmt.Errorf("%w: got rules %016x, want %016x", ErrOtherRules, a.config.Rules.ID(), a.at.RulesID)
	}
	start, end, err := a.log.Range(ctx, a.config.Requests, a.config.Fold.Partition)
	if err != nil {
		return report, fmt.Errorf("read the log's range: %w", err)
	}
	if a.at.Next > end {
		return report, fmt.Errorf("%w: got offset %d as its end, want %d", kafkaio.ErrTruncated, end, a.at.Next)
	}
	a.first, a.horizon, a.changed = start, math.MinInt64, math.MinInt64
	if err := a.passMigration(ctx); err != nil {
		return report, err
	}
	a.config.Fold.MaxRows = math.MaxInt // the truth has no bound
	if err := a.limitTo(s); err != nil {
		return report, err
	}
	a.fold = fold.New(a.config.Rules, a.config.Fold)
	if err := a.readOrder(ctx); err != nil {
		return report, err
	}
	if err := a.recount(ctx); err != nil {
		return report, fmt.Errorf("recount the log: %w", err)
	}
	report.From, report.LogTime = min(a.first, a.at.Next), a.at.LogTime
	report.Log = a.fold.Stats()
	report.LostControls = a.lostControls
	return report, a.compare(s, &report)
}

// passMigration passes over the frames that say that counts were brought from another log. What began before them cannot be recounted.
func (a *audit) passMigration(ctx context.Context) error {
	c := a.config
	cursor := kafkaio.NewCursor(a.log, kafkaio.CursorConfig{
		Topic: c.Requests, Partition: c.Fold.Partition, MaxWait: -1, MaxBytes: 1 << 20, Retry: kafkaio.Always, Logger: c.Logger,
	})
	last, brought, err := cursor.Leading(ctx, func(r *kafkaio.Record) bool {
		logTime, is := schemas.Migrated(r.Value)
		if is {
			a.horizon = max(a.horizon, logTime)
		}
		return is
	})
	if brought {
		a.brought, a.first = true, last.Offset+1
	}
	return err
}

// limitTo limits the recount to callers that have rows in the store, if the store ever had no room for all of them: the
// log may hold many more.
func (a *audit) limitTo(s *store.Store) error {
	lossy, stored := false, make(map[string]struct{})
	err := s.Load(func(key, _ []byte) error {
		switch fold.KindOf(key) {
		case fold.LossRow:
			lossy = true
		case fold.CountRow:
			stored[string(key)] = struct{}{}
		}
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrDigest) { // which compare reports
		return fmt.Errorf("read store: %w", err)
	}
	if lossy {
		var key []byte
		a.config.Fold.Only = func(r *rules.Rule, id string) bool {
			key = fold.AppendRowKey(key[:0], r.Name, r.Kind, id)
			_, ok := stored[string(key)]
			return ok
		}
	}
	return nil
}

// recount folds what the log retains, up to the checkpoint.
func (a *audit) recount(ctx context.Context) error {
	if a.first >= a.at.Next {
		a.horizon = math.MaxInt64
		a.applyBefore(a.at.Next)
		a.fold.Advance(a.at.LogTime)
		a.collect()
		return nil
	}
	c := a.config
	cursor := kafkaio.NewCursor(a.log, kafkaio.CursorConfig{
		Topic: c.Requests, Partition: c.Fold.Partition, Offset: a.first, MaxBytes: 1 << 20, Retry: kafkaio.Always, Logger: c.Logger,
	})
	if err := cursor.Scan(ctx, a.at.Next, a.foldBatch); err != nil {
		return err
	}
	a.applyBefore(a.at.Next)
	if a.first > 0 && a.fold.LogTime() < a.at.LogTime { // the log no longer has the newest entry: a clock was set back after it
		a.horizon = max(a.horizon, a.at.LogTime)
	}
	a.fold.Advance(a.at.LogTime)
	a.collect()
	return nil
}

func (a *audit) foldBatch(b *kafkaio.Batch) error {
	for _, s := range b.Skipped {
		n := max(1, s.To-s.From+1)
		switch s.Reason {
		case kafkaio.SkipLost:
			return fmt.Errorf("the log lost %d records while it was read, try again", n)
		case kafkaio.SkipControl: // holds no records
		default:
			a.fold.CountRejected(string(s.Reason), uint64(n)) // ≥ 1
		}
	}
	for i := range b.Records {
		r := fold.Record{Offset: b.Records[i].Offset, Time: b.Records[i].Time, Value: b.Records[i].Value}
		if r.Offset == a.at.TailOffset && b.Records[i].Tail().CRC != a.at.TailCRC {
			return fmt.Errorf("%w: offset %d, the last that was counted, is another record", ErrOtherLog, r.Offset)
		}
		a.foldRecord(r)
	}
	if a.config.Progress != nil {
		a.config.Progress(b.Next-a.first, a.at.Next-a.first)
	}
	return nil
}

// neighbours is how many messages at the log's start are looked at to estimate how new those before them may be.
const neighbours = 64

// collectAt is how many rows may have changed before they are collected.
const collectAt = 10_000

func (a *audit) foldRecord(r fold.Record) {
	if a.first > 0 && !a.brought && a.records < neighbours {
		a.horizon = max(a.horizon, r.Time+int64(skew))
	}
	a.records++
	a.applyBefore(r.Offset)
	_ = a.fold.Frame(r) // a record that is refused was refused by the owner too, and is in the stats
	a.fold.TakeChanges()
	a.fold.TakeCanaries()
	if a.sets == nil && r.Offset < a.at.RulesFrom {
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

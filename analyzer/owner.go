package analyzer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Log is what an owner needs of Kafka; *kafkaio.Client is one. Its methods are called from several goroutines.
type Log interface {
	Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error)
	Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (base int64, err error)
	Range(ctx context.Context, topic string, partition int) (start, end int64, err error)
}

// Defaults of OwnerConfig.
const (
	DefaultCheckpoint = 500 * time.Millisecond
	DefaultHeartbeat  = time.Second
	DefaultRepeat     = time.Minute
	DefaultSnapshot   = 10 * time.Minute
)

// OwnerConfig configures an Owner. Zero durations are the defaults.
type OwnerConfig struct {
	Fold       FoldOptions // Partition and Partitions say which one is owned
	Requests   string      // topic
	Decisions  string      // topic
	State      string      // topic of snapshots; empty: none are written or read
	Rejects    string      // topic of what could not be read; empty: it is only counted
	Dir        string      // of the partition's store
	Rules      *rules.Set
	Name       string                    // of this analyzer, for people
	Lease      func(now time.Time) bool  // whether the partition is still ours to publish for; nil is always
	Checkpoint time.Duration             // at most this long between commits while entries come
	Heartbeat  time.Duration             // between heartbeats
	Repeat     time.Duration             // between cycles that republish all closures in force
	Snapshot   time.Duration             // between cycles that write all rows to State
	Store      store.Options             //
	Logger     *slog.Logger              // nil discards
	Observe    func(c Change, lag int64) // called for each close published, with the lag in nanoseconds; nil is nobody
}

func (c OwnerConfig) withDefaults() OwnerConfig {
	if c.Lease == nil {
		c.Lease = func(time.Time) bool { return true }
	}
	if c.Checkpoint == 0 {
		c.Checkpoint = DefaultCheckpoint
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.Repeat == 0 {
		c.Repeat = DefaultRepeat
	}
	if c.Snapshot == 0 {
		c.Snapshot = DefaultSnapshot
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// State is what an owner is doing.
type State int32

// States, in the order in which a healthy owner passes them. MemoryOnly stands beside Running: the disk is full, so that
// decisions go on but a restart would count from the last checkpoint in the log.
const (
	Idle State = iota
	Claiming
	Opening
	Verifying
	Restoring
	Reconciling
	Running
	MemoryOnly
	Draining
)

// String returns the state's name in lower case.
func (s State) String() string {
	return [...]string{"idle", "claiming", "opening", "verifying", "restoring", "reconciling", "running", "memory-only", "draining"}[s]
}

// Owner owns one partition: it folds requests[p], keeps the counts in its store, and is the only writer of decisions[p].
// Make one with NewOwner and call Run once. SetRules, Stats and Next may be called from any goroutine.
type Owner struct {
	reader
	state     atomic.Int32
	next      atomic.Int64 // the next offset to fold
	durable   atomic.Int64 // the offset before which all is counted in the store
	stats     atomic.Pointer[FoldStats]
	rules     chan *rules.Set
	publisher *publisher
	states    *stateWriter
	rejects   *rejectWriter
	drained   chan struct{}                                       // closed when all that was counted is published and committed, and the store is being closed
	mark      atomic.Pointer[ruleMark]                            // which rules count
	openStore func(dir string, o store.Options) (rowStore, error) // tests put faults here

	// Owned by Run's goroutine.
	fold       *Fold
	store      rowStore
	tailOffset int64
	tailCRC    uint32
	rulesFrom  int64
	claimed    uint64            // the epoch
	beat       schemas.Heartbeat // the newest before our claim
	snapshot   *snapshot         // to be restored, or nil
	changes    ruleHistory       // of rules, which the log that is being refolded was counted by
	rolling    rolling
	commits    *committer
	committed  time.Time
}

// NewOwner returns an owner that has done nothing yet.
func NewOwner(log Log, c OwnerConfig) *Owner {
	c = c.withDefaults()
	c.Logger = c.Logger.With("partition", c.Fold.Partition)
	o := &Owner{reader: reader{log, c}, rules: make(chan *rules.Set, 1), drained: make(chan struct{})}
	o.stats.Store(&FoldStats{})
	o.openStore = openStore
	o.states = newStateWriter(log, c)
	o.rejects = newRejectWriter(log, c)
	o.mark.Store(&ruleMark{})
	o.publisher = newPublisher(log, c, o.fillHeartbeat)
	return o
}

// Run owns the partition until ctx ends, then commits what it counted and returns nil. It returns an error if the
// partition was claimed by another (ErrFenced), or if the store can't be used; whoever called it may start another.
func (o *Owner) Run(ctx context.Context) error {
	defer o.setState(Idle)
	o.setState(Opening)
	if err := o.open(); err != nil {
		return err
	}
	defer func() { o.setState(Idle); o.closeStore() }() // in this order: on a broken disk, closing takes as long as it is
	failpoint.Here(failpoint.Opened)
	o.setState(Claiming)
	if err := o.claim(ctx); err != nil {
		return ended(ctx, fmt.Errorf("claim partition %d: %w", o.config.Fold.Partition, err))
	}
	o.setState(Verifying)
	if err := o.verify(ctx); err != nil {
		return ended(ctx, fmt.Errorf("verify store: %w", err))
	}
	if err := o.choose(ctx); err != nil {
		return ended(ctx, fmt.Errorf("look for a snapshot: %w", err))
	}
	fetchCtx, stopFetching := context.WithCancel(ctx)
	defer stopFetching()
	// The helpers outlive ctx: what was folded is still published and committed.
	helpers, helperCtx := errgroup.WithContext(context.WithoutCancel(ctx))
	f := newFetcher(o.log, o.config, o.next.Load())
	o.commits = newCommitter(o.store)
	helpers.Go(func() error { f.run(fetchCtx); return nil })
	helpers.Go(func() error { o.commits.run(); return nil })
	helpers.Go(func() error { o.states.run(fetchCtx); return nil })
	helpers.Go(func() error { o.rejects.run(fetchCtx); return nil })
	publishing := make(chan struct{})
	helpers.Go(func() error { return o.publisher.run(helperCtx, publishing) })
	err := o.own(ctx, helperCtx, f, publishing)
	stopFetching()
	o.commits.close()
	o.publisher.close()
	err = errors.Join(err, helpers.Wait())
	failpoint.Here(failpoint.Drained)
	close(o.drained)
	return err
}

// own restores, reconciles, and then folds until ctx or a helper ends.
func (o *Owner) own(ctx, helperCtx context.Context, f *fetcher, publishing chan<- struct{}) error {
	o.setState(Restoring)
	if err := o.restore(ctx, f); err != nil {
		return ended(ctx, fmt.Errorf("restore partition %d: %w", o.config.Fold.Partition, err))
	}
	if err := o.reconcile(ctx); err != nil {
		return ended(ctx, fmt.Errorf("reconcile partition %d: %w", o.config.Fold.Partition, err))
	}
	close(publishing)
	o.setState(Running)
	if err := o.loop(ctx, helperCtx, f); err != nil {
		return err
	}
	o.setState(Draining)
	failpoint.Here(failpoint.Draining)
	return o.commitAll()
}

// loop is the owner's life: fold what was fetched, publish what changed, commit from time to time.
func (o *Owner) loop(ctx, helperCtx context.Context, f *fetcher) error {
	tick := time.NewTicker(o.config.Checkpoint / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-helperCtx.Done():
			return nil // the helper's own error is what counts
		case set := <-o.rules:
			if err := o.changeRules(ctx, set); err != nil {
				return err
			}
		case b := <-f.batches:
			failpoint.Here(failpoint.Fetched)
			if err := o.foldBatch(b); err != nil {
				return err
			}
		case err := <-o.commits.done:
			if err := o.committedOne(err); err != nil {
				return err
			}
		case <-o.states.done:
			o.states.busy = false
			o.hurrySnapshot()
		case now := <-tick.C:
			o.stepSnapshot(now)
		}
		if err := o.maybeCommit(time.Now()); err != nil {
			return err
		}
	}
}

// SetRules changes the rules the owner counts by, before the next record that it folds.
func (o *Owner) SetRules(set *rules.Set) {
	for {
		select {
		case o.rules <- set:
			return
		default:
		}
		select {
		case <-o.rules: // an older set that nobody has taken yet
		default:
		}
	}
}

// Next returns the next offset to fold.
func (o *Owner) Next() int64 { return o.next.Load() }

func (o *Owner) setState(s State) {
	if State(o.state.Swap(int32(s))) != s {
		o.config.Logger.Info("owner", "state", s.String(), "next", o.next.Load())
	}
}

// ended returns nil in place of an error that only says that ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it is what this is for
	}
	return err
}

// decision turns a change into what gates are told; seq and epoch are the publisher's.
func decision(c *Change, partition int, lag int64) schemas.Decision {
	return schemas.Decision{
		Rule: c.Rule.Name, RuleVersion: c.Rule.Fingerprint(), Caller: c.Caller, Mode: c.Rule.Mode,
		CloseAt: c.Closure.CloseAt, Until: c.Closure.Until,
		Partition: int32(partition), // a partition number
		Evidence: schemas.Evidence{
			Count: c.Count.Total, Limit: c.Limit, Window: c.Rule.Window.Length(c.At), WindowStart: c.Count.Start,
			AsOfOffset: c.Offset, AsOfTime: c.At, Lag: lag,
		},
	}
}

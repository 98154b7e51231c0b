package analyzer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Membership is an analyzer's part in its consumer group; *kafkaio.Group is one, through Config.Join.
type Membership interface {
	Next(ctx context.Context) (*kafkaio.Generation, error)
	Close() error
}

// Config configures an Analyzer.
type Config struct {
	Owner          OwnerConfig   // for all partitions; Fold.Partition, Dir and Lease are set for each
	Dir            string        // under which each partition has its store
	SessionTimeout time.Duration // of the group: 0 is kafkaio.DefaultSessionTimeout
	Join           func() (Membership, error)
}

// Analyzer runs an Owner for each partition that its consumer group assigns to it. Make one with New and call Run once;
// the other methods may be called from any goroutine.
type Analyzer struct {
	config Config
	log    Log
	logger *slog.Logger
	start  time.Time    // zero of lease
	lease  atomic.Int64 // when the newest successful offset commit was sent, since start
	spare  atomic.Bool  // a member of the group that was given no partition

	mu     sync.Mutex
	rules  *rules.Set       // guarded by mu
	owners map[int]*running // guarded by mu
	held   held             // guarded by mu
	wg     sync.WaitGroup
}

// running is an owner and its end.
type running struct {
	owner *Owner
	stop  context.CancelFunc
	done  chan struct{}
}

// New returns an analyzer that has done nothing yet.
func New(log Log, c Config) *Analyzer {
	c.Owner = c.Owner.withDefaults()
	if c.SessionTimeout == 0 {
		c.SessionTimeout = kafkaio.DefaultSessionTimeout
	}
	a := &Analyzer{config: c, log: log, logger: c.Owner.Logger, rules: c.Owner.Rules, owners: make(map[int]*running), start: time.Now()}
	a.lease.Store(math64Past)
	return a
}

// math64Past is a lease that ended long ago.
const math64Past = -1 << 62

// leaseMargin is how long before the session's end an owner stops publishing: what it has in flight must arrive before
// another owner can exist.
const leaseMargin = time.Second

// leased reports whether the group still held our partitions to be ours not long ago. The lease counts from when the
// commit was sent, on the monotonic clock.
func (a *Analyzer) leased(now time.Time) bool {
	return now.Sub(a.start)-time.Duration(a.lease.Load()) < a.config.SessionTimeout-leaseMargin
}

// Run owns what the group assigns until ctx ends; then all owners commit and stop, and it returns nil.
func (a *Analyzer) Run(ctx context.Context) error {
	a.mu.Lock()
	a.held = readHeld(a.config.Dir)
	a.mu.Unlock()
	group, err := a.config.Join()
	if err != nil {
		return fmt.Errorf("join group: %w", err)
	}
	defer a.wg.Wait()
	for ctx.Err() == nil {
		gen, err := group.Next(ctx)
		if err != nil {
			if errors.Is(err, kafkaio.ErrClosed) || ctx.Err() != nil {
				break
			}
			a.logger.Warn("cannot join group", "error", err)
			sleep(ctx, retryLast)
			continue
		}
		a.logger.Info("joined group", "generation", gen.ID, "partitions", gen.Partitions)
		a.keepOnly(gen.Partitions)
		a.commitOffsets(gen)
		for _, p := range gen.Partitions {
			a.own(ctx, p)
		}
		a.spare.Store(len(gen.Partitions) == 0)
		a.serve(ctx, gen)
		a.spare.Store(false)
	}
	a.keepOnly(nil)
	a.noteHeld(true)
	return group.Close() // the others go on while the stores are being closed here
}

// serve renews the lease until the generation or ctx ends. Owners go on through a rebalance: those that lose their
// partition are stopped when the next generation says so, and publish nothing once the lease has run out.
func (a *Analyzer) serve(ctx context.Context, gen *kafkaio.Generation) {
	tick := time.NewTicker(min(time.Second, a.config.SessionTimeout/6))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gen.Done():
			return
		case <-tick.C:
			a.commitOffsets(gen)
		}
	}
}

// commitOffsets tells the group how far the owners are, which is a measure of lag and nothing else, and renews the lease.
func (a *Analyzer) commitOffsets(gen *kafkaio.Generation) {
	offsets := make(map[int]int64, len(gen.Partitions))
	a.mu.Lock()
	for _, p := range gen.Partitions {
		offsets[p] = max(0, gen.Committed[p])
		if r := a.owners[p]; r != nil {
			offsets[p] = r.owner.Next()
		}
	}
	a.mu.Unlock()
	if len(offsets) == 0 {
		return
	}
	a.noteHeld(false)
	sent := time.Since(a.start)
	if err := gen.Commit(offsets); err != nil {
		a.logger.Warn("cannot renew lease", "error", err)
		return
	}
	failpoint.Here(failpoint.LeaseRenewed)
	a.lease.Store(int64(sent))
}

// Held returns, by partition, up to which offset the stores of this analyzer reach, as
// kafkaio.Sticky wants it.
func (a *Analyzer) Held() map[int]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	offsets := a.held.present()
	for p, r := range a.owners {
		offsets[p] = r.owner.Next() + 1
	}
	return offsets
}

// noteHeld writes down from time to time what Held says, or now.
func (a *Analyzer) noteHeld(now bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, r := range a.owners {
		a.held.offsets[p] = r.owner.Next()
	}
	if !now && time.Since(a.held.written) < heldEvery {
		return
	}
	if err := a.held.write(time.Now()); err != nil {
		a.logger.Warn("cannot note which stores are held", "error", err)
	}
}

// own starts an owner of the partition, unless there is one, and starts another whenever it fails.
func (a *Analyzer) own(ctx context.Context, partition int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owners[partition] != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	r := &running{owner: a.newOwner(partition), stop: stop, done: make(chan struct{})}
	a.owners[partition] = r
	a.wg.Go(func() {
		defer close(r.done)
		for wait := retryFirst; ctx.Err() == nil; wait = min(2*wait, 5*retryLast) {
			err := r.owner.Run(ctx)
			if err == nil {
				continue
			}
			a.logger.Error("owner failed, starting another", "partition", partition, "error", err)
			sleep(ctx, wait)
			a.mu.Lock()
			r.owner = a.newOwner(partition)
			a.mu.Unlock()
		}
	})
}

// newOwner returns an owner with the newest rules; a.mu is held.
func (a *Analyzer) newOwner(partition int) *Owner {
	c := a.config.Owner
	c.Fold.Partition = partition
	c.Dir = filepath.Join(a.config.Dir, strconv.Itoa(partition))
	c.Rules = a.rules
	c.Lease = a.leased
	return NewOwner(a.log, c)
}

// keepOnly stops all owners but those of the given partitions, and waits until they have published and committed all they
// had counted. Their stores are closed after that.
func (a *Analyzer) keepOnly(partitions []int) {
	a.mu.Lock()
	stopped := make(map[int]*running)
	for p, r := range a.owners {
		if !slices.Contains(partitions, p) {
			r.stop()
			stopped[p] = r
			delete(a.owners, p)
		}
	}
	a.mu.Unlock()
	for p, r := range stopped {
		a.mu.Lock()
		o := r.owner
		a.mu.Unlock()
		select {
		case <-o.drained:
		case <-r.done:
		}
		a.mu.Lock()
		a.held.offsets[p] = o.Next()
		a.mu.Unlock()
	}
}

// SetRules changes the rules of all owners, without losing counts.
func (a *Analyzer) SetRules(set *rules.Set) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules = set
	for _, r := range a.owners {
		r.owner.SetRules(set)
	}
}

// Stats returns a snapshot of each owner, by partition.
func (a *Analyzer) Stats() []OwnerStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	stats := make([]OwnerStats, 0, len(a.owners))
	for _, p := range slices.Sorted(maps.Keys(a.owners)) {
		stats = append(stats, a.owners[p].owner.Stats())
	}
	return stats
}

// Ready reports whether this analyzer holds a lease and all its owners decide. One more analyzer than there are partitions
// is ready with nothing to do: it stands by.
func (a *Analyzer) Ready(now time.Time) bool {
	if a.spare.Load() {
		return true
	}
	if !a.leased(now) {
		return false
	}
	for _, s := range a.Stats() {
		if s.State != Running && s.State != MemoryOnly {
			return false
		}
	}
	return true
}

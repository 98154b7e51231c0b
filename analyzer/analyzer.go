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
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/rows"
)

// Membership is an analyzer's part in its consumer group, through Config.Join; *kafkaio.Group is one, and *solo.Member without a group.
type Membership interface {
	Next(ctx context.Context) (*kafkaio.Generation, error) // waits a little before it returns an error
	OnProof(f func(sent time.Time))
	Close() error
}

// Config configures an Analyzer.
type Config struct {
	Owner          OwnerConfig   // for the owners of all partitions, except Fold.Partition, Dir and Lease, which the Analyzer sets for each
	Dir            string        // has the stores of all partitions, each in a directory of its own
	SessionTimeout time.Duration // of the group: 0 is kafkaio.DefaultSessionTimeout
	Join           func() (Membership, error)
	// Outage reports since when no broker answers, as kafkaio.Client.Outage does. nil: brokers always answer.
	Outage func(now time.Time) (kafkaio.Outage, bool)
}

// Analyzer runs an owner for each partition that its consumer group assigns to it. Make one with New and call Run once;
// the other methods may be called from any goroutine.
type Analyzer struct {
	config  Config
	log     kafkaio.Log
	logger  *slog.Logger
	lease   *lease
	standby atomic.Bool // the group has assigned no partition to this member

	mu     sync.Mutex
	rules  rulesInUse        // guarded by mu
	owners map[int]*ownerRun // guarded by mu
	hints  offsetHints       // guarded by mu
	wg     sync.WaitGroup
}

// ownerRun is a running owner, and the means to stop it.
type ownerRun struct {
	owner *Owner
	stop  context.CancelFunc
	done  chan struct{}
}

// New returns an analyzer that has done nothing yet.
func New(log kafkaio.Log, c Config) *Analyzer {
	c.Owner = c.Owner.withDefaults()
	if c.SessionTimeout == 0 {
		c.SessionTimeout = kafkaio.DefaultSessionTimeout
	}
	if c.Outage == nil {
		c.Outage = func(time.Time) (kafkaio.Outage, bool) { return kafkaio.Outage{}, false }
	}
	a := &Analyzer{config: c, log: log, logger: c.Owner.Logger, rules: rulesInUse{set: c.Owner.Rules}, owners: make(map[int]*ownerRun), lease: newLease(c.SessionTimeout)}
	return a
}

// Run owns the partitions that the group assigns, until ctx ends. Then all owners commit and stop, and it returns nil. If an owner cannot
// read what a newer version of floodgate has written, Run gives all partitions back to the group in the same way, and returns a
// rows.ErrNewer: another member may be able to read it.
func (a *Analyzer) Run(ctx context.Context) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	a.mu.Lock()
	a.hints = readOffsetHints(a.config.Dir)
	a.mu.Unlock()
	group, err := a.config.Join()
	if err != nil {
		return fmt.Errorf("join group: %w", err)
	}
	defer a.wg.Wait()
	a.wg.Go(func() { a.watchRules(ctx) })
	group.OnProof(a.lease.renew)
	for ctx.Err() == nil {
		gen, err := group.Next(ctx)
		if err != nil {
			if errors.Is(err, kafkaio.ErrClosed) || ctx.Err() != nil {
				break
			}
			a.logger.Warn("cannot join group, trying again", "error", err)
			continue // Next has waited
		}
		a.logger.Info("joined group", "generation", gen.ID, "partitions", gen.Partitions)
		if !a.lease.valid(time.Now()) {
			a.keepOnly(nil) // others may have owned the partitions meanwhile, so these owners must not go on
		}
		a.keepOnly(gen.Partitions)
		a.commitOffsets(gen)
		for _, p := range gen.Partitions {
			a.own(ctx, giveUp, p)
		}
		a.standby.Store(len(gen.Partitions) == 0)
		a.serve(ctx, gen)
		a.standby.Store(false)
	}
	a.keepOnly(nil)
	a.noteOffsets(true)
	err = group.Close() // the other members take over while the stores are being closed here
	if newer := context.Cause(ctx); errors.Is(newer, rows.ErrNewer) {
		return newer
	}
	return err
}

// serve commits offsets until the generation or ctx ends. Owners go on through a rebalance. An owner that loses its partition is stopped
// when the next generation says so, and publishes nothing after the lease has run out. The group's heartbeats renew the lease, also while
// the group waits for the next generation.
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

// commitOffsets tells the group how far the owners are, and renews the lease. The offsets only measure the lag: no owner starts from them.
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
	a.noteOffsets(false)
	sent := time.Now()
	if err := gen.Commit(offsets); err != nil {
		a.logger.Warn("cannot renew lease", "error", err)
		return
	}
	failpoint.Here(failpoint.LeaseRenewed)
	a.lease.renew(sent)
}

// Held returns, by partition, the next offset of the store that this analyzer holds, plus one if it owns the partition now: see
// kafkaio.GroupConfig.Held.
func (a *Analyzer) Held() map[int]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	offsets := a.hints.present()
	for p, r := range a.owners {
		offsets[p] = r.owner.Next() + 1
	}
	return offsets
}

// noteOffsets writes the hint of how far the stores reach: at once if now is set, else each hintEvery.
func (a *Analyzer) noteOffsets(now bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, r := range a.owners {
		a.hints.offsets[p] = r.owner.Next()
	}
	if !now && time.Since(a.hints.written) < hintEvery {
		return
	}
	if err := a.hints.write(time.Now()); err != nil {
		a.logger.Warn("cannot write the hint of the stores that are here", "error", err)
	}
}

// maxOwnerPause is the longest pause before another owner is started.
const maxOwnerPause = 5 * time.Second

// own starts an owner of the partition, unless there is one, and starts another whenever it fails. If what the owner must read was written
// by a newer version, own calls giveUp instead.
func (a *Analyzer) own(ctx context.Context, giveUp context.CancelCauseFunc, partition int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.owners[partition] != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	r := &ownerRun{owner: a.newOwner(partition, 0, false), stop: stop, done: make(chan struct{})}
	a.owners[partition] = r
	a.wg.Go(func() {
		defer close(r.done)
		wait := kafkaio.Backoff{Max: maxOwnerPause}
		for ctx.Err() == nil {
			err := r.owner.Run(ctx)
			switch {
			case err == nil:
				continue
			case errors.Is(err, rows.ErrNewer):
				giveUp(fmt.Errorf("partition %d: %w", partition, err))
				return
			}
			a.logger.Error("owner failed, starting another", "partition", partition, "error", err)
			_ = wait.Pause(ctx) // the loop checks ctx
			otherLogs, otherLog := r.owner.Stats().OtherLogs, errors.Is(err, errOtherLog)
			if otherLog {
				otherLogs++
			}
			a.mu.Lock()
			r.owner = a.newOwner(partition, otherLogs, otherLog)
			a.mu.Unlock()
		}
	})
}

// newOwner returns an owner with the newest rules. The other arguments are those of OwnerConfig. a.mu is held.
func (a *Analyzer) newOwner(partition int, otherLogs uint64, otherLog bool) *Owner {
	c := a.config.Owner
	c.otherLogs, c.otherLog = otherLogs, otherLog
	c.Fold.Partition = partition
	c.Dir = filepath.Join(a.config.Dir, strconv.Itoa(partition))
	c.Rules = a.rules.set
	c.Lease = a.lease.valid
	return NewOwner(a.log, c)
}

// keepOnly stops all owners except those of the given partitions. It waits until they have published and committed all that they have
// counted. It does not wait until their stores are closed.
func (a *Analyzer) keepOnly(partitions []int) {
	a.mu.Lock()
	stopped := make(map[int]*ownerRun)
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
		a.hints.offsets[p] = o.Next()
		a.mu.Unlock()
	}
}

// Outage reports whether no broker of Kafka answers. An owner counts nothing then, and nothing that it decides reaches a gate.
func (a *Analyzer) Outage(now time.Time) (kafkaio.Outage, bool) { return a.config.Outage(now) }

// Stats returns a snapshot of each owner, by partition.
func (a *Analyzer) Stats() []OwnerStats {
	_, away := a.Outage(time.Now())
	a.mu.Lock()
	defer a.mu.Unlock()
	stats := make([]OwnerStats, 0, len(a.owners))
	for _, p := range slices.Sorted(maps.Keys(a.owners)) {
		s := a.owners[p].owner.Stats()
		if away && s.State.Decides() {
			s.State = stateKafkaAway
		}
		stats = append(stats, s)
	}
	return stats
}

// Ready reports whether brokers answer, this analyzer holds a lease, and all its owners decide. An analyzer to which the group has assigned
// no partition stands by, and is ready, too. So is one whose disk is full: it decides, and to take requests away from it would help nobody.
func (a *Analyzer) Ready(now time.Time) bool {
	if _, away := a.Outage(now); away {
		return false
	}
	if a.standby.Load() {
		return true
	}
	if !a.lease.valid(now) {
		return false
	}
	for _, s := range a.Stats() {
		if !s.State.Decides() {
			return false
		}
	}
	return true
}

package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
)

// Generation is the group's assignment between two rebalances. Its methods are safe for concurrent use.
type Generation struct {
	ID         int32 // 0 without a group
	Member     string
	Partitions []int         // of the group's topic, ascending; may be empty
	Committed  map[int]int64 // per partition of Partitions: the offset last committed, or -1

	commit      func(offsets map[int]int64) error
	group       *Group        // nil: NewGeneration has made it
	leads       bool          // this member has assigned the partitions
	assigned    int           // if it leads: how many partitions the topic had then
	returned    bool          // guarded by group.mu: by Next
	stored      map[int]int64 // guarded by group.mu: what Commit has stored, by partition
	ended       chan struct{}
	endOnce     sync.Once
	released    chan struct{} // closed by Next: the member may rejoin
	releaseOnce sync.Once
}

// NewGeneration returns a generation of a member of no group, for one that has its partitions in another way. committed has all of them,
// as Generation.Committed does, and belongs to the generation from now on. Commit calls commit, which is safe for concurrent use. end
// closes Done.
func NewGeneration(committed map[int]int64, commit func(offsets map[int]int64) error) (g *Generation, end func()) {
	g = &Generation{Partitions: slices.Sorted(maps.Keys(committed)), Committed: committed, commit: commit, ended: make(chan struct{})}
	return g, g.end
}

func (g *Generation) end() { g.endOnce.Do(func() { close(g.ended) }) }

func (g *Generation) release() {
	g.end()
	g.releaseOnce.Do(func() { close(g.released) })
}

// Done is closed when the generation is over: a rebalance began, the coordinator could not be reached, or Close. The member
// must then stop work on its partitions and call Next.
func (g *Generation) Done() <-chan struct{} { return g.ended }

// Assigned returns how many partitions the topic had when they were assigned. Only the member that has assigned them, the
// group's leader, knows that.
func (g *Generation) Assigned() (partitions int, leader bool) { return g.assigned, g.leads }

// Commit stores, for each partition, the offset to continue from, and waits for the answer. Success is a proof, as of the
// beginning of the call: see Group.OnProof. It fails once another generation has begun, also on a member that has not
// noticed yet.
func (g *Generation) Commit(offsets map[int]int64) error {
	for p := range offsets {
		if _, ok := slices.BinarySearch(g.Partitions, p); !ok {
			return fmt.Errorf("commit offsets: got partition %d, want one of %v", p, g.Partitions)
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	if err := g.commit(offsets); err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	return nil
}

// commitToGroup is commit for a member of a group.
func (g *Generation) commitToGroup(offsets map[int]int64) error {
	ctx, done, err := g.group.begin()
	if err != nil {
		return err
	}
	defer done()
	if err := g.group.commit(ctx, g.ID, g.Member, offsets); err != nil {
		return err
	}
	g.group.mu.Lock()
	defer g.group.mu.Unlock()
	maps.Copy(g.stored, offsets)
	return nil
}

// newest returns the newest offset of a partition that is known to be committed, or 0. The caller has group.mu.
func (g *Generation) newest(p int) int64 {
	if offset, ok := g.stored[p]; ok {
		return offset
	}
	return max(0, g.Committed[p])
}

// commit commits offsets as a member of a generation.
func (g *Group) commit(ctx context.Context, generation int32, member string, offsets map[int]int64) error {
	topic := offsetcommit.RequestTopic{Name: g.config.Topic}
	for p, offset := range offsets {
		topic.Partitions = append(topic.Partitions, offsetcommit.RequestPartition{
			PartitionIndex: int32(p), CommittedOffset: offset, CommittedLeaderEpoch: -1, // a partition number
		})
	}
	answer, err := g.coordinator.ask(ctx, &offsetcommit.Request{
		GroupID: g.config.Group, GenerationID: generation, MemberID: member, RetentionTimeMs: -1,
		Topics: []offsetcommit.RequestTopic{topic},
	}, commitVersion, 0)
	if err != nil {
		return err
	}
	r, ok := answer.(*offsetcommit.Response)
	if !ok {
		return fmt.Errorf("%w: got %T", errWrongAnswer, answer)
	}
	answered := 0
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			answered++
			if err := g.coordinator.checked(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	if answered != len(offsets) {
		return fmt.Errorf("%w: got %d partitions, want %d", errWrongAnswer, answered, len(offsets))
	}
	return nil
}

// heartbeat tells the coordinator that a member of a generation is alive.
func (g *Group) heartbeat(ctx context.Context, generation int32, member string) error {
	answer, err := g.coordinator.ask(ctx, &heartbeat.Request{GroupID: g.config.Group, GenerationID: generation, MemberID: member}, heartbeatVersion, 0)
	if err != nil {
		return err
	}
	r, ok := answer.(*heartbeat.Response)
	if !ok {
		return fmt.Errorf("%w: got %T", errWrongAnswer, answer)
	}
	return g.coordinator.checked(r.ErrorCode)
}

// changing reports whether an error says that a rebalance is in progress. Then the generation is still the newest.
func changing(err error) bool { return errors.Is(err, kafka.RebalanceInProgress) }

// watchGrowth ends a generation of which this member is the leader as soon as the topic has more partitions than it has
// assigned. When the leader joins, the coordinator asks all members to join again. A topic that has become smaller was
// created anew; its readers notice that by their offsets.
func (g *Group) watchGrowth(ctx context.Context, gen *Generation) {
	tick := time.NewTicker(g.config.GrowthCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gen.ended:
			return
		case <-tick.C:
		}
		partitions, err := g.partitions(ctx, []string{g.config.Topic})
		if err == nil && len(partitions) > gen.assigned {
			gen.end()
			return
		}
	}
}

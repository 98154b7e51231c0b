package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/consumer"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
)

// The newest versions of requests that are sent to a coordinator. Later ones add nothing that is needed here, and kafka-go
// v0.4.51 reads answers of heartbeat 1 and leave 1 wrongly: it reads the throttle time as the error.
const (
	joinVersion      = 5
	syncVersion      = 3
	heartbeatVersion = 0
	leaveVersion     = 0
	commitVersion    = 7
	offsetsVersion   = 5
	topicsVersion    = 8
)

// consumerVersion is the version of the messages that members send each other through the coordinator.
const consumerVersion = 0

// rejoins reports whether an error is normal in a group that changes: the member then joins again, at once.
func rejoins(err error) bool {
	code, ok := errors.AsType[kafka.Error](err)
	if !ok {
		return false
	}
	switch code {
	case kafka.RebalanceInProgress, kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.MemberIDRequired,
		kafka.NotCoordinatorForGroup, kafka.GroupCoordinatorNotAvailable, kafka.GroupLoadInProgress:
		return true
	}
	return false
}

// joinOnce joins and returns the next generation, which is not yet running.
func (g *Group) joinOnce(ctx context.Context) (*Generation, error) {
	if err := g.leaveFormer(ctx); err != nil {
		return nil, fmt.Errorf("remove the previous process from the group: %w", err)
	}
	joined, err := g.askJoin(ctx)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	partitions, assigned, err := g.askSync(ctx, joined)
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	gen := &Generation{
		ID: joined.GenerationID, Member: joined.MemberID, Partitions: partitions, Committed: make(map[int]int64), stored: make(map[int]int64),
		group: g, leads: joined.LeaderID == joined.MemberID, assigned: assigned, ended: make(chan struct{}), released: make(chan struct{}),
	}
	gen.commit = gen.commitToGroup
	return gen, nil
}

// askJoin sends a join, and waits until all members have joined or the coordinator has removed those that did not.
func (g *Group) askJoin(ctx context.Context) (*joingroup.Response, error) {
	request := &joingroup.Request{
		GroupID: g.config.Group, MemberID: g.memberID(), ProtocolType: "consumer",
		SessionTimeoutMS: int32(g.config.SessionTimeout.Milliseconds()), RebalanceTimeoutMS: int32(g.config.RebalanceTimeout.Milliseconds()),
	}
	for _, b := range g.config.balancers {
		userData, err := b.UserData()
		if err != nil {
			return nil, fmt.Errorf("encode user data of balancer %s: %w", b.ProtocolName(), err)
		}
		about, err := protocol.Marshal(consumerVersion, consumer.Subscription{Version: consumerVersion, Topics: []string{g.config.Topic}, UserData: userData})
		if err != nil {
			return nil, fmt.Errorf("encode membership: %w", err)
		}
		request.Protocols = append(request.Protocols, joingroup.RequestProtocol{Name: b.ProtocolName(), Metadata: about})
	}
	answer, err := g.coordinator.ask(ctx, request, joinVersion, g.config.RebalanceTimeout)
	if err != nil {
		return nil, err
	}
	r, ok := answer.(*joingroup.Response)
	if !ok {
		return nil, fmt.Errorf("%w: got %T", errWrongAnswer, answer)
	}
	err = g.coordinator.checked(r.ErrorCode)
	switch {
	case errors.Is(err, kafka.MemberIDRequired), err == nil:
		return r, errors.Join(err, g.setMemberID(r.MemberID))
	case errors.Is(err, kafka.UnknownMemberId):
		return nil, errors.Join(err, g.setMemberID(""))
	}
	return nil, err
}

// askSync waits until the group's leader has assigned partitions. If this member is the leader, it assigns them. It returns
// this member's partitions and, if it is the leader, how many partitions the topic has.
func (g *Group) askSync(ctx context.Context, joined *joingroup.Response) (own []int, assigned int, err error) {
	request := &syncgroup.Request{GroupID: g.config.Group, GenerationID: joined.GenerationID, MemberID: joined.MemberID}
	if joined.LeaderID == joined.MemberID {
		if request.Assignments, assigned, err = g.assign(ctx, joined); err != nil {
			return nil, 0, fmt.Errorf("assign partitions: %w", err)
		}
	}
	stop := g.proveWhileSyncing(ctx, joined)
	answer, err := g.coordinator.ask(ctx, request, syncVersion, g.config.SessionTimeout)
	stop()
	if err != nil {
		return nil, 0, err
	}
	r, ok := answer.(*syncgroup.Response)
	if !ok {
		return nil, 0, fmt.Errorf("%w: got %T", errWrongAnswer, answer)
	}
	if err := g.coordinator.checked(r.ErrorCode); err != nil {
		if errors.Is(err, kafka.UnknownMemberId) {
			err = errors.Join(err, g.setMemberID(""))
		}
		return nil, 0, err
	}
	own, err = g.partitionsOf(r.Assignments)
	return own, assigned, err
}

// partitionsOf decodes an assignment; no bytes are an empty assignment.
func (g *Group) partitionsOf(assigned []byte) ([]int, error) {
	var partitions []int
	if len(assigned) == 0 {
		return nil, nil
	}
	var a consumer.Assignment
	if err := protocol.Unmarshal(assigned, consumerVersion, &a); err != nil {
		return nil, fmt.Errorf("decode assignment: %w", err)
	}
	for _, t := range a.AssignedPartitions {
		if t.Topic != g.config.Topic {
			continue
		}
		for _, p := range t.Partitions {
			partitions = append(partitions, int(p))
		}
	}
	slices.Sort(partitions)
	return partitions, nil
}

// assign spreads the partitions over the members, as the leader must, and returns how many partitions the group's
// topic has.
func (g *Group) assign(ctx context.Context, joined *joingroup.Response) (all []syncgroup.RequestAssignment, count int, err error) {
	i := slices.IndexFunc(g.config.balancers, func(b kafka.GroupBalancer) bool { return b.ProtocolName() == joined.ProtocolName })
	if i < 0 {
		return nil, 0, fmt.Errorf("%w: got protocol %q", errWrongAnswer, joined.ProtocolName)
	}
	members := make([]kafka.GroupMember, 0, len(joined.Members))
	var topics []string
	for _, m := range joined.Members {
		var s consumer.Subscription
		if err := protocol.Unmarshal(m.Metadata, consumerVersion, &s); err != nil {
			return nil, 0, fmt.Errorf("decode user data of member %s: %w", m.MemberID, err)
		}
		members = append(members, kafka.GroupMember{ID: m.MemberID, Topics: s.Topics, UserData: s.UserData})
		topics = append(topics, s.Topics...)
	}
	slices.Sort(topics)
	partitions, err := g.partitions(ctx, slices.Compact(topics))
	if err != nil {
		return nil, 0, err
	}
	for _, p := range partitions {
		if p.Topic == g.config.Topic {
			count++
		}
	}
	for id, given := range g.config.balancers[i].AssignGroups(members, partitions) {
		a := consumer.Assignment{Version: consumerVersion}
		for topic, ps := range given {
			of := consumer.TopicPartition{Topic: topic}
			for _, p := range ps {
				of.Partitions = append(of.Partitions, int32(p)) // partition numbers
			}
			a.AssignedPartitions = append(a.AssignedPartitions, of)
		}
		b, err := protocol.Marshal(consumerVersion, a)
		if err != nil {
			return nil, 0, fmt.Errorf("encode assignment: %w", err)
		}
		all = append(all, syncgroup.RequestAssignment{MemberID: id, Assignment: b})
	}
	return all, count, nil
}

// partitions returns the partitions that topics have now, as a broker says. A topic that does not exist has none.
func (g *Group) partitions(ctx context.Context, topics []string) ([]kafka.Partition, error) {
	answer, err := g.coordinator.ask(ctx, &metadata.Request{TopicNames: topics}, topicsVersion, 0)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	r, ok := answer.(*metadata.Response)
	if !ok {
		return nil, fmt.Errorf("list partitions: %w: got %T", errWrongAnswer, answer)
	}
	var all []kafka.Partition
	for _, t := range r.Topics {
		err := brokerError(t.ErrorCode)
		if err != nil && !errors.Is(err, ErrNoTopic) {
			return nil, fmt.Errorf("list partitions of %s: %w", t.Name, err)
		}
		for _, p := range t.Partitions {
			all = append(all, kafka.Partition{Topic: t.Name, ID: int(p.PartitionIndex)})
		}
	}
	return all, nil
}

// fetchCommitted fills in the committed offsets of the generation's partitions.
func (g *Group) fetchCommitted(ctx context.Context, gen *Generation) error {
	topic := offsetfetch.RequestTopic{Name: g.config.Topic}
	for _, p := range gen.Partitions {
		gen.Committed[p] = -1
		topic.PartitionIndexes = append(topic.PartitionIndexes, int32(p)) // a partition number
	}
	if len(gen.Partitions) == 0 {
		return nil
	}
	answer, err := g.coordinator.ask(ctx, &offsetfetch.Request{GroupID: g.config.Group, Topics: []offsetfetch.RequestTopic{topic}}, offsetsVersion, 0)
	if err != nil {
		return err
	}
	r, ok := answer.(*offsetfetch.Response)
	if !ok {
		return fmt.Errorf("%w: got %T", errWrongAnswer, answer)
	}
	if err := g.coordinator.checked(r.ErrorCode); err != nil {
		return err
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := g.coordinator.checked(p.ErrorCode); err != nil {
				return err
			}
			if _, ours := gen.Committed[int(p.PartitionIndex)]; ours {
				gen.Committed[int(p.PartitionIndex)] = max(p.CommittedOffset, -1)
			}
		}
	}
	return nil
}

// rejoinWait is the pause before the third attempt to join in succession; it doubles with each further attempt.
const rejoinWait = 10 * time.Millisecond

// maxRejoins is the number of attempts to join before Next reports the error.
const maxRejoins = 10

package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// Defaults of GroupConfig.
const (
	// DefaultSessionTimeout is the shortest that Apache Kafka takes unless told otherwise.
	DefaultSessionTimeout = 6 * time.Second
	DefaultHeartbeat      = 250 * time.Millisecond
	DefaultJoinBackoff    = 250 * time.Millisecond
	groupCloseTimeout     = 2 * time.Second
)

// GroupConfig says which group to join. Client, Group and Topic are needed.
type GroupConfig struct {
	Client *Client // whose brokers, TLS, SASL and timeout to use
	Group  string
	Topic  string

	// SessionTimeout is how long a member may be silent before its partitions go to others. 0 is DefaultSessionTimeout.
	SessionTimeout time.Duration
	// Heartbeat is how often a member speaks up, and so how soon it hears of a rebalance. 0 is DefaultHeartbeat.
	Heartbeat time.Duration
	// RebalanceTimeout is how long the others wait for a member that has not yet let go. 0 is SessionTimeout.
	RebalanceTimeout time.Duration
	// JoinBackoff is the pause after a failed join. 0 is DefaultJoinBackoff and up to twice as much again, at random.
	JoinBackoff time.Duration
	// Balancers say how partitions are spread, in order of preference; all members must share one. Empty is Sticky with
	// Held and Standby, then range, then round robin.
	Balancers []kafka.GroupBalancer
	// Held and Standby are those of Sticky.
	Held    func() map[int]int64
	Standby bool
}

// Group is membership in a consumer group, and nothing else: it reads no records. Its methods are safe for concurrent
// use, but Next is for one goroutine.
type Group struct {
	topic string
	group *kafka.ConsumerGroup
	conns *connSet

	mu     sync.Mutex
	last   *Generation // guarded by mu: not yet released
	closed bool        // guarded by mu
}

// NewGroup starts to join. Errors of joining come from Next; NewGroup fails only on a config that can't work.
func NewGroup(c GroupConfig) (*Group, error) {
	if c.Client == nil || len(c.Client.config.Brokers) == 0 {
		return nil, fmt.Errorf("join group: %w", ErrNoBrokers)
	}
	c.setDefaults()
	// A coordinator that does not answer must not hold a member for longer than its lease.
	timeout := min(c.Client.config.Timeout, c.SessionTimeout/2)
	conns := newConnSet(c.Client.config.Dial)
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:      c.Group,
		Brokers: c.Client.config.Brokers,
		Topics:  []string{c.Topic},
		Dialer: &kafka.Dialer{
			ClientID: c.Client.config.ClientID, Timeout: timeout, DialFunc: conns.dial,
			TLS: c.Client.config.TLS, SASLMechanism: c.Client.config.SASL,
		},
		GroupBalancers:    c.Balancers,
		HeartbeatInterval: c.Heartbeat,
		SessionTimeout:    c.SessionTimeout,
		RebalanceTimeout:  c.RebalanceTimeout,
		JoinGroupBackoff:  c.JoinBackoff,
		StartOffset:       kafka.FirstOffset,
		Timeout:           timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("join group: %w", err)
	}
	return &Group{topic: c.Topic, group: group, conns: conns}, nil
}

func (c *GroupConfig) setDefaults() {
	if c.SessionTimeout <= 0 {
		c.SessionTimeout = DefaultSessionTimeout
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = min(DefaultHeartbeat, c.SessionTimeout/3)
	}
	if c.RebalanceTimeout <= 0 {
		c.RebalanceTimeout = c.SessionTimeout
	}
	if c.JoinBackoff <= 0 {
		// Not the same for all: two members whose attempts take turns can keep a coordinator waiting for ever, where each
		// attempt begins its wait anew, as the embedded broker's do.
		c.JoinBackoff = DefaultJoinBackoff + rand.N(2*DefaultJoinBackoff) //nolint:gosec // spreads attempts, no secret
	}
	if len(c.Balancers) == 0 {
		c.Balancers = []kafka.GroupBalancer{Sticky{Held: c.Held, Standby: c.Standby}, kafka.RangeGroupBalancer{}, kafka.RoundRobinGroupBalancer{}}
	}
}

// Generation is the group's assignment between two rebalances. Its methods are safe for concurrent use.
type Generation struct {
	ID         int32
	Member     string
	Partitions []int         // of the group's topic, ascending; may be empty
	Committed  map[int]int64 // per partition of Partitions: the offset last committed, or -1

	topic    string
	gen      *kafka.Generation
	ended    chan struct{}
	released chan struct{}
	once     sync.Once
}

// Next releases the generation before, and waits for the next one. The member rejoins only then: call Next when the work
// on the partitions of the generation before has stopped, within RebalanceTimeout, or the others go on without it. An
// error for which Temporary holds means that joining failed and is being tried again: call Next again. After Close the
// error is ErrClosed.
func (g *Group) Next(ctx context.Context) (*Generation, error) {
	g.release(nil)
	gen, err := g.group.Next(ctx)
	switch {
	case errors.Is(err, kafka.ErrGroupClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, fmt.Errorf("join group: %w", named(err))
	}
	next := &Generation{
		ID: gen.ID, Member: gen.MemberID, Committed: make(map[int]int64),
		topic: g.topic, gen: gen, ended: make(chan struct{}), released: make(chan struct{}),
	}
	for _, a := range gen.Assignments[g.topic] {
		next.Partitions = append(next.Partitions, a.ID)
		next.Committed[a.ID] = max(a.Offset, -1) // kafka-go says -2, "the first", where nothing is committed
	}
	slices.Sort(next.Partitions)
	gen.Start(next.hold)
	g.release(next)
	return next, nil
}

// release lets the last generation go and remembers the next.
func (g *Group) release(next *Generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil {
		g.last.release()
	}
	g.last = next
	if g.closed && next != nil {
		next.release()
	}
}

// hold runs as part of the generation: kafka-go joins the next one only when it has returned.
func (g *Generation) hold(ctx context.Context) {
	select {
	case <-ctx.Done():
		close(g.ended)
		<-g.released
	case <-g.released:
		close(g.ended)
	}
}

func (g *Generation) release() { g.once.Do(func() { close(g.released) }) }

// Done is closed when the generation is over: a rebalance began, the coordinator could not be reached, or Close. Stop
// working on the partitions, then call Next.
func (g *Generation) Done() <-chan struct{} { return g.ended }

// Commit stores, per partition, the offset to go on from, and waits for the answer. Success means that the coordinator
// still held this member to be the partitions' owner when it answered, which makes it the owner's lease: count it from
// before the call. It fails once another generation has begun, also on a member that has not noticed yet.
func (g *Generation) Commit(offsets map[int]int64) error {
	for p := range offsets {
		if _, ok := slices.BinarySearch(g.Partitions, p); !ok {
			return fmt.Errorf("commit offsets: got partition %d, want one of %v", p, g.Partitions)
		}
	}
	if err := g.gen.CommitOffsets(map[string]map[int]int64{g.topic: offsets}); err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	return nil
}

// Close leaves the group, so that the others take over at once, and ends the generation. It waits for the broker's
// answer, but not longer than two seconds.
func (g *Group) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.release(nil)
	cut := time.AfterFunc(groupCloseTimeout, g.conns.close)
	defer cut.Stop()
	if err := g.group.Close(); err != nil {
		return fmt.Errorf("leave group: %w", err)
	}
	return nil
}

package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
)

// Defaults of GroupConfig.
const (
	// DefaultSessionTimeout is the shortest time-out that Apache Kafka accepts by default.
	DefaultSessionTimeout = 6 * time.Second
	defaultHeartbeat      = 250 * time.Millisecond
	defaultJoinBackoff    = 250 * time.Millisecond
	// DefaultGrowthCheck is how often a group that is to notice new partitions looks for them.
	DefaultGrowthCheck = 10 * time.Second
	groupCloseTimeout  = 2 * time.Second
)

// GroupConfig says which group to join, and how. Client, Group and Topic are needed.
type GroupConfig struct {
	Client *Client // the group uses its brokers, TLS, SASL and timeout
	Group  string
	Topic  string

	// SessionTimeout is how long a member may be silent before its partitions go to others. 0 is DefaultSessionTimeout.
	SessionTimeout time.Duration
	// Heartbeat is the time between two heartbeats. A member hears of a rebalance in the answer to the next one. 0 is
	// 250 ms.
	Heartbeat time.Duration
	// RebalanceTimeout is how long a rebalance waits for a member that has not rejoined yet. 0 is SessionTimeout.
	RebalanceTimeout time.Duration
	// JoinBackoff is the pause after a join that failed, unless it failed because the group is changing. 0 is
	// 250 ms plus a random time of up to twice as much.
	JoinBackoff time.Duration
	// balancers spread the partitions, in order of preference. All members must share one. Empty is sticky with Held and
	// Standby, then range, then round robin.
	balancers []kafka.GroupBalancer
	// Held returns, by partition, the next offset of the state that this member holds, plus one if it owns the partition now.
	// It is called at every join, in a goroutine of the group; nil means no state. The member with the newest state of a
	// partition gets it. A Standby member gets partitions only if there are no other members.
	Held    func() map[int]int64
	Standby bool
	// GrowthCheck is how often the group's leader looks whether the topic has more partitions than it has assigned. If so, it
	// ends the generation, and the next one includes the new partitions. 0 is never: then partitions that are added, and a
	// topic that is created after the members have joined, wait for the next change of the members.
	GrowthCheck time.Duration
	// MemberFile is the path of a file that keeps this member's id while the group runs. If a process was killed, the next
	// process with the same file removes its member from the group. Without a file, the group would wait until the session
	// of the killed process ends. Empty is no file.
	MemberFile string
}

// Group is membership in a consumer group, and nothing else: it reads no records. Its methods are safe for concurrent
// use, but Next is for one goroutine.
type Group struct {
	config      GroupConfig
	coordinator *coordinator
	next        chan *Generation
	errs        chan error
	ctx         context.Context //nolint:containedctx // of the goroutines and calls that Close ends
	stop        context.CancelFunc
	wg          sync.WaitGroup // counts the goroutines and calls that stop ends

	mu     sync.Mutex
	member string               // guarded by mu: our id; empty: the coordinator knows no such member
	former string               // guarded by mu: the id of the process before this one, if it must still leave
	file   *memberFile          // guarded by mu
	last   *Generation          // guarded by mu: what Next returned
	proofs *proofs              // guarded by mu
	proved func(sent time.Time) // guarded by mu
	closed bool                 // guarded by mu
}

// NewGroup starts to join. Next returns errors of joining; NewGroup fails only if the config is invalid.
func NewGroup(c GroupConfig) (*Group, error) {
	if c.Client == nil || len(c.Client.config.Brokers) == 0 {
		return nil, fmt.Errorf("join group: %w", ErrNoBrokers)
	}
	if c.Group == "" || c.Topic == "" {
		return nil, fmt.Errorf("join group: got group %q and topic %q, want both", c.Group, c.Topic)
	}
	c.setDefaults()
	// A member must not wait longer than its lease for a coordinator that does not answer.
	timeout := min(c.Client.config.Timeout, c.SessionTimeout/2)
	file, former, err := openMemberFile(c.MemberFile)
	if err != nil {
		return nil, fmt.Errorf("join group: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Group{
		config: c, file: file, former: former, coordinator: newCoordinator(c.Client, c.Group, timeout), next: make(chan *Generation), errs: make(chan error),
		ctx: ctx, stop: stop,
	}
	g.wg.Go(func() { g.run(ctx) })
	return g, nil
}

func (c *GroupConfig) setDefaults() {
	if c.SessionTimeout <= 0 {
		c.SessionTimeout = DefaultSessionTimeout
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = min(defaultHeartbeat, c.SessionTimeout/3)
	}
	if c.RebalanceTimeout <= 0 {
		c.RebalanceTimeout = c.SessionTimeout
	}
	if c.JoinBackoff <= 0 {
		// The pause is random, so that members differ. With equal pauses, two members whose attempts alternate can keep a
		// coordinator waiting for ever if each attempt restarts its wait, as in the embedded broker.
		c.JoinBackoff = defaultJoinBackoff + rand.N(2*defaultJoinBackoff) //nolint:gosec // spreads attempts, no secret
	}
	if len(c.balancers) == 0 {
		c.balancers = []kafka.GroupBalancer{sticky{Held: c.Held, Standby: c.Standby}, kafka.RangeGroupBalancer{}, kafka.RoundRobinGroupBalancer{}}
	}
}

// Next releases the previous generation, and waits for the next one. The member rejoins only when Next is called. So stop
// the work on the previous partitions and call Next within RebalanceTimeout after Done was closed; otherwise the others
// continue without this member. If the group changes during a join, that is no error: the member joins again, at once.
// After any other error it waits for JoinBackoff and joins again. If Temporary holds for the error of Next, call Next
// again. After Close the error is ErrClosed.
func (g *Group) Next(ctx context.Context) (*Generation, error) {
	g.mu.Lock()
	if g.last != nil {
		g.last.release()
	}
	closed := g.closed
	g.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-g.ctx.Done():
		return nil, ErrClosed
	case err := <-g.errs:
		return nil, fmt.Errorf("join group: %w", named(err))
	case gen := <-g.next:
		g.mu.Lock()
		defer g.mu.Unlock()
		g.last = gen
		gen.returned = true
		if g.closed {
			gen.end()
		}
		return gen, nil
	}
}

// run joins, and joins again after each generation that Next has released, until ctx ends.
func (g *Group) run(ctx context.Context) {
	for {
		gen, err := g.join(ctx)
		if err != nil {
			select {
			case <-ctx.Done():
				return
			case g.errs <- err:
			}
			if Sleep(ctx, g.config.JoinBackoff) != nil {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case g.next <- gen:
		}
		select {
		case <-ctx.Done():
			return
		case <-gen.released:
		}
	}
}

// join joins until this member has a generation, or an error ends the attempts.
func (g *Group) join(ctx context.Context) (*Generation, error) {
	wait := time.Duration(0)
	for try := 1; ; try++ {
		gen, err := g.joinOnce(ctx)
		if err == nil {
			g.begun(ctx, gen)
			if err = g.fetchCommitted(ctx, gen); err == nil {
				return gen, nil
			}
			err = fmt.Errorf("fetch committed offsets: %w", err)
		}
		if !rejoins(err) || try == maxRejoins {
			return nil, err
		}
		if err := Sleep(ctx, wait); err != nil {
			return nil, err
		}
		wait = min(max(rejoinWait, 2*wait), g.config.JoinBackoff)
	}
}

// begin bounds a call by Close. The caller defers done.
func (g *Group) begin() (ctx context.Context, done func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, ErrClosed
	}
	g.wg.Add(1)
	ctx, cancel := context.WithCancel(g.ctx)
	return ctx, func() { cancel(); g.wg.Done() }, nil
}

func (g *Group) memberID() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.member
}

func (g *Group) setMemberID(id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.member == id {
		return nil
	}
	g.member = id
	return g.file.save(id)
}

// Close leaves the group, so that the others take over at once, and ends the generation. It waits at most two seconds for
// the broker's answer.
func (g *Group) Close() error {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	if g.last != nil {
		g.last.end()
	}
	g.mu.Unlock()
	g.stop()
	g.wg.Wait()
	if !first {
		return nil
	}
	defer g.coordinator.close()
	ctx, cancel := context.WithTimeout(context.Background(), groupCloseTimeout)
	defer cancel()
	if id := g.memberID(); id != "" {
		_ = g.leave(ctx, id) // without an answer, the member leaves when its session ends
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.file.close(); err != nil {
		return fmt.Errorf("leave group: %w", err)
	}
	return nil
}

// leave removes a member from the group. If the coordinator does not know the member, that is no error.
func (g *Group) leave(ctx context.Context, id string) error {
	answer, err := g.coordinator.ask(ctx, &leavegroup.Request{GroupID: g.config.Group, MemberID: id}, leaveVersion, 0)
	if err != nil {
		return err
	}
	r, ok := answer.(*leavegroup.Response)
	if !ok {
		return fmt.Errorf("%w: got %T", errWrongAnswer, answer)
	}
	if err := g.coordinator.checked(r.ErrorCode); !errors.Is(err, kafka.UnknownMemberId) {
		return err
	}
	return nil
}

// leaveFormer removes the member of the process before this one from the group, once. If the coordinator refuses, it knows
// no such member or no such group, and there is nothing to leave.
func (g *Group) leaveFormer(ctx context.Context) error {
	g.mu.Lock()
	id := g.former
	g.mu.Unlock()
	if id == "" {
		return nil
	}
	if err := g.leave(ctx, id); err != nil {
		if _, refused := errors.AsType[kafka.Error](err); !refused || rejoins(err) {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.former = ""
	return nil
}

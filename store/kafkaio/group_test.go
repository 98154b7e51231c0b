package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// quick is a group whose timeouts are short enough to wait for.
func quick(c *Client) GroupConfig {
	return GroupConfig{Client: c, Group: "g", Topic: "t", SessionTimeout: time.Second, Heartbeat: 50 * time.Millisecond, JoinBackoff: 50 * time.Millisecond}
}

// member follows a group on a goroutine and tells what it owns.
type member struct {
	*Group
	owned chan []int
}

// join starts a member. It lives until the test's end or Close.
func join(t *testing.T, wg *sync.WaitGroup, c GroupConfig) *member {
	t.Helper()
	g, err := NewGroup(c)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{Group: g, owned: make(chan []int, 100)}
	wg.Go(func() {
		for {
			gen, err := g.Next(context.Background())
			switch {
			case errors.Is(err, ErrClosed):
				return
			case Temporary(err):
				continue
			case err != nil:
				t.Error(err)
				return
			}
			m.owned <- gen.Partitions
			<-gen.Done()
		}
	})
	return m
}

// awaitOwned waits until members own want partitions each, all of them together.
func awaitOwned(t *testing.T, n int, members ...*member) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	last := make([][]int, len(members))
	for {
		all := slices.Sorted(slices.Values(slices.Concat(last...)))
		fair := true
		for _, own := range last {
			fair = fair && len(own) == n/len(members)
		}
		if fair && len(slices.Compact(all)) == n {
			return
		}
		for i, m := range members {
			select {
			case last[i] = <-m.owned:
			case <-time.After(5 * time.Millisecond):
			case <-timeout:
				t.Fatalf("got partitions %v, want %d spread evenly", last, n)
			}
		}
	}
}

func groupBroker(t *testing.T, partitions int) *Client {
	t.Helper()
	_, c := groupCluster(t, partitions)
	return c
}

func groupCluster(t *testing.T, partitions int) (*embedded.Broker, *Client) {
	t.Helper()
	b := startBroker(t, embedded.Options{MinSession: 100 * time.Millisecond})
	c := startClient(t, Config{Brokers: b.Addrs()})
	makeTopic(t, c, "t", partitions)
	return b, c
}

// TestGroupSplitsAndTakesOver lets members come and go.
func TestGroupSplitsAndTakesOver(t *testing.T) {
	c := groupBroker(t, 6)
	var wg sync.WaitGroup
	defer wg.Wait()
	a := join(t, &wg, quick(c))
	defer a.Close()
	awaitOwned(t, 6, a)
	b := join(t, &wg, quick(c))
	defer b.Close()
	awaitOwned(t, 6, a, b)
	d := join(t, &wg, quick(c))
	defer d.Close()
	awaitOwned(t, 6, a, b, d)
	start := time.Now()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	awaitOwned(t, 6, a, d)
	t.Logf("planned hand-over in %v", time.Since(start))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	awaitOwned(t, 6, a)
}

// TestCommitIsRefusedToAZombie cuts a member off without a word, until its partitions are another's.
func TestCommitIsRefusedToAZombie(t *testing.T) {
	t.Parallel()
	c := groupBroker(t, 2)
	var w weather
	cut := startClient(t, Config{Brokers: c.config.Brokers, Dial: w.dial, Timeout: time.Second})
	zombie, err := NewGroup(quick(cut))
	if err != nil {
		t.Fatal(err)
	}
	defer zombie.Close()
	gen := nextGeneration(t, zombie)
	if err := gen.Commit(map[int]int64{0: 1, 1: 1}); err != nil || len(gen.Partitions) != 2 {
		t.Fatalf("got %v for %v, want the lease", err, gen.Partitions)
	}
	w.hole.Store(true) // from here on it hears nothing
	heir, err := NewGroup(quick(c))
	if err != nil {
		t.Fatal(err)
	}
	defer heir.Close()
	start := time.Now()
	next := nextGeneration(t, heir)
	t.Logf("took over after %v", time.Since(start))
	if !slices.Equal(next.Partitions, []int{0, 1}) || next.ID <= gen.ID || next.Committed[0] != 1 {
		t.Fatalf("got generation %d of %v at %v, want both after %d", next.ID, next.Partitions, next.Committed, gen.ID)
	}
	if err := next.Commit(map[int]int64{0: 5}); err != nil {
		t.Fatal(err)
	}
	w.hole.Store(false) // it wakes up, and believes to be the owner
	if err := gen.Commit(map[int]int64{0: 99}); err == nil {
		t.Error("got a lease for a zombie")
	}
	select {
	case <-gen.Done():
	case <-time.After(10 * time.Second):
		t.Error("the zombie was never told")
	}
}

// TestCommitOfAnOldGeneration is the zombie that can still speak: the coordinator refuses it by its generation.
func TestCommitOfAnOldGeneration(t *testing.T) {
	c := groupBroker(t, 2)
	a, err := NewGroup(quick(c))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	old := nextGeneration(t, a)
	var wg sync.WaitGroup
	defer wg.Wait()
	b := join(t, &wg, quick(c))
	defer b.Close()
	<-old.Done()
	now := nextGeneration(t, a)
	for len(now.Partitions) != 1 {
		<-now.Done()
		now = nextGeneration(t, a)
	}
	if err := now.Commit(map[int]int64{now.Partitions[0]: 7}); err != nil {
		t.Fatal(err)
	}
	if err := old.Commit(map[int]int64{0: 99}); err == nil {
		t.Error("got a lease for an old generation")
	}
}

// TestNextReleases holds a generation back: while the owner still works, the member has not rejoined.
func TestNextReleases(t *testing.T) {
	t.Parallel()
	c := groupBroker(t, 2)
	config := quick(c)
	config.SessionTimeout, config.RebalanceTimeout = 5*time.Second, 5*time.Second
	a, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	gen := nextGeneration(t, a)
	b, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	<-gen.Done()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := b.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %+v and %v while the owner still works, want to wait", got, err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { nextGeneration(t, a) })
	if got := nextGeneration(t, b); len(got.Partitions) != 1 {
		t.Errorf("got %v, want one partition", got.Partitions)
	}
}

// TestGroupWithoutABroker reports, keeps trying, and closes in time.
func TestGroupWithoutABroker(t *testing.T) {
	b := startBroker(t, embedded.Options{})
	addrs := b.Addrs()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c := startClient(t, Config{Brokers: addrs})
	g, err := NewGroup(quick(c))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if gen, err := g.Next(t.Context()); !Temporary(err) {
			t.Errorf("got %v and %v, want a temporary error", gen, err)
		}
	}
	within(t, time.Second, "close", func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := g.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// TestGroupClosesIntoABlackHole does not wait for an answer that will not come.
func TestGroupClosesIntoABlackHole(t *testing.T) {
	testenv.Long(t)
	c := groupBroker(t, 1)
	var w weather
	cut := startClient(t, Config{Brokers: c.config.Brokers, Dial: w.dial, Timeout: time.Minute})
	config := quick(cut)
	config.SessionTimeout = 4 * time.Minute // so that nothing else ends the wait
	g, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	gen := nextGeneration(t, g)
	w.hole.Store(true)
	within(t, groupCloseTimeout+3*time.Second, "close", func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	<-gen.Done()
	if err := gen.Commit(map[int]int64{0: 1}); err == nil {
		t.Error("got a lease after Close")
	}
}

func TestGroupConfig(t *testing.T) {
	c := startClient(t, Config{Brokers: []string{"127.0.0.1:1"}})
	for name, config := range map[string]GroupConfig{
		"no client":  {Group: "g", Topic: "t"},
		"no brokers": {Client: startClient(t, Config{}), Group: "g", Topic: "t"},
		"no group":   {Client: c, Topic: "t"},
	} {
		if g, err := NewGroup(config); err == nil {
			t.Errorf("%s: got no error", name)
			g.Close()
		}
	}
	got := GroupConfig{}
	got.setDefaults()
	if got.SessionTimeout != 6*time.Second || got.Heartbeat != 250*time.Millisecond || got.RebalanceTimeout != 6*time.Second ||
		fmt.Sprint(got.balancers) != fmt.Sprint([]kafka.GroupBalancer{sticky{}, kafka.RangeGroupBalancer{}, kafka.RoundRobinGroupBalancer{}}) {
		t.Errorf("got defaults %+v", got)
	}
	got = GroupConfig{SessionTimeout: 300 * time.Millisecond}
	got.setDefaults()
	if got.Heartbeat != 100*time.Millisecond {
		t.Errorf("got heartbeat %v, want a third of a short session", got.Heartbeat)
	}
}

// Members that all wait equally long between attempts to join may take turns for ever.
func TestAttemptsToJoinAreSpread(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for range 100 {
		var c GroupConfig
		c.setDefaults()
		if c.JoinBackoff < defaultJoinBackoff || c.JoinBackoff >= 3*defaultJoinBackoff {
			t.Fatalf("got %v, want %v to three times as long", c.JoinBackoff, defaultJoinBackoff)
		}
		seen[c.JoinBackoff] = true
	}
	if len(seen) < 50 {
		t.Errorf("got %d different waits of 100, want most of them different", len(seen))
	}
	c := GroupConfig{JoinBackoff: time.Second}
	if c.setDefaults(); c.JoinBackoff != time.Second {
		t.Errorf("got %v, want what was asked for", c.JoinBackoff)
	}
}

// TestAMemberThatDiesWhileItJoinsOwnsNothingForLong: it has asked to join, and is gone when the others are there too and
// partitions are given to it. Its session runs out as if it had lived until then.
func TestAMemberThatDiesWhileItJoinsOwnsNothingForLong(t *testing.T) {
	testenv.Long(t)
	b, c := groupCluster(t, 4)
	var wg sync.WaitGroup
	defer wg.Wait()
	config := quick(c)
	config.Heartbeat = 500 * time.Millisecond // so that the others come late
	a := join(t, &wg, config)
	defer a.Close()
	awaitOwned(t, 4, a)

	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ask := kmsg.NewPtrJoinGroupRequest()
	ask.Version, ask.Group, ask.ProtocolType, ask.SessionTimeoutMillis, ask.RebalanceTimeoutMillis = 1, "g", "consumer", 1000, 1000
	about := kmsg.NewConsumerMemberMetadata()
	about.Topics = []string{"t"}
	ask.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: about.AppendTo(nil)}}
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, ask, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cluster().WaitGroupInfo(t.Context(), "g", func(g *kfake.GroupInfo) bool { return len(g.Members) == 2 }); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	shared := <-a.owned
	if len(shared) != 2 {
		t.Errorf("got %v at first, want 2 of 4 partitions: the dead member was to be given the others", shared)
	}
	awaitOwned(t, 4, a)
}

// grow gives a topic more partitions.
func grow(t *testing.T, c *Client, topic string, partitions int) {
	t.Helper()
	r, err := c.admin.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(partitions)}},
	})
	if err != nil || r.Errors[topic] != nil {
		t.Fatalf("got %v, %+v", err, r)
	}
}

// TestAGroupTakesPartitionsThatAppear lets two members join before their topic exists, then creates it, and then adds
// partitions. All of them get an owner, though no member comes or goes.
func TestAGroupTakesPartitionsThatAppear(t *testing.T) {
	c := groupBroker(t, 1)
	config := quick(c)
	config.Topic, config.GrowthCheck = "later", 20*time.Millisecond
	var wg sync.WaitGroup
	defer wg.Wait()
	a, b := join(t, &wg, config), join(t, &wg, config)
	defer b.Close()
	defer a.Close()
	for _, m := range []*member{a, b} {
		if owned := <-m.owned; len(owned) != 0 {
			t.Fatalf("got partitions %v of a topic that does not exist", owned)
		}
	}
	makeTopic(t, c, "later", 2)
	awaitOwned(t, 2, a, b)
	grow(t, c, "later", 6)
	awaitOwned(t, 6, a, b)
}

// TestAGroupWithoutGrowthCheckStays: who must not read new partitions by itself, as the analyzer, is not made to.
func TestAGroupWithoutGrowthCheckStays(t *testing.T) {
	t.Parallel()
	c := groupBroker(t, 2)
	g, err := NewGroup(quick(c))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	gen, err := g.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, leader := gen.Assigned(); n != 2 || !leader {
		t.Errorf("got %d partitions, leader %v, want the leader, who has assigned 2", n, leader)
	}
	grow(t, c, "t", 4)
	select {
	case <-gen.Done():
		t.Error("the generation ended by itself")
	case <-time.After(10 * quick(c).Heartbeat):
	}
}

package analyzer

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// newVirtualCluster is a cluster in a synctest bubble: client and broker are real, the network is in memory, and takes no
// time.
func newVirtualCluster(t *testing.T) *cluster {
	t.Helper()
	network := new(kfake.VirtualNetwork)
	b, err := embedded.Start(embedded.Options{Listen: "127.0.0.1:9092", Cluster: []kfake.Opt{kfake.ListenFn(network.Listen)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return clusterBehind(t, []string{"127.0.0.1:9092"}, kafkaio.DefaultSessionTimeout, network.DialContext)
}

// Kafka's numbers of requests (its protocol guide, "API Keys").
const (
	keyProduce      = 0
	keyOffsetCommit = 8
	keyFindGroup    = 10
	keyHeartbeat    = 12
	keySyncGroup    = 14 // 11 and 13: join, leave
)

// proxy stands between an analyzer and its broker, and can cut off what is said to and by the coordinator of its group.
type proxy struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	publish []byte // the topic of decisions
	hole    bool   // cut off is a black hole, not a connection that is reset

	mu        sync.Mutex
	cut       bool          // guarded by mu
	proved    time.Time     // guarded by mu: when the last offset commit or heartbeat was sent that came through
	published time.Time     // guarded by mu: when decisions were sent last
	longest   time.Duration // guarded by mu: between two times that decisions were sent
	swallowed int           // guarded by mu: requests to the coordinator
}

func (p *proxy) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &proxied{Conn: conn, proxy: p}, nil
}

func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// passes takes note of a request, and reports whether it is let through.
func (p *proxy) passes(key uint16, request []byte) (group, through bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	group = key == keyOffsetCommit || key >= keyFindGroup && key <= keySyncGroup
	switch {
	case group && p.cut:
		p.swallowed++
		return true, false
	case key == keyOffsetCommit, key == keyHeartbeat:
		p.proved = time.Now()
	case key == keyProduce && bytes.Contains(request, p.publish):
		if !p.published.IsZero() {
			p.longest = max(p.longest, time.Since(p.published))
		}
		p.published = time.Now()
	}
	return group, true
}

// proxied is one connection.
type proxied struct {
	net.Conn
	proxy *proxy
	part  []byte // of a request; the writer's

	mu    sync.Mutex
	group bool // guarded by mu: it is one to the coordinator
}

// Write sends whole requests.
func (c *proxied) Write(b []byte) (int, error) {
	c.part = append(c.part, b...)
	for len(c.part) >= 6 {
		size := 4 + int(binary.BigEndian.Uint32(c.part))
		if len(c.part) < size {
			break
		}
		group, through := c.proxy.passes(binary.BigEndian.Uint16(c.part[4:]), c.part[:size])
		if group {
			c.mu.Lock()
			c.group = true
			c.mu.Unlock()
		}
		if !through && !c.proxy.hole {
			_ = c.Close()
			return 0, syscall.ECONNRESET
		}
		if through {
			if _, err := c.Conn.Write(c.part[:size]); err != nil {
				return 0, err
			}
		}
		c.part = c.part[size:]
	}
	return len(b), nil
}

// Read passes over what the coordinator says while it is cut off.
func (c *proxied) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		c.mu.Lock()
		group := c.group
		c.mu.Unlock()
		c.proxy.mu.Lock()
		lost := c.proxy.hole && c.proxy.cut && group
		c.proxy.mu.Unlock()
		if err != nil || !lost {
			return n, err
		}
	}
}

// TestACoordinatorThatIsCutOff is fault row 7: an analyzer can read and write all topics, and not reach the coordinator of
// its group. It goes on for as long as its lease lasts, the session but for a second after the last offset commit or
// heartbeat was sent, and not a moment longer. Another one takes over, and counts stay exact.
func TestACoordinatorThatIsCutOff(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 7))
	runs := 1
	if testenv.IsLong() {
		runs = 5
	}
	for range runs {
		after := time.Duration(rnd.Int64N(int64(2 * time.Second)))
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newVirtualCluster(t)
				c.cutOff(&proxy{}, 10*time.Second+after, 0)
			})
		})
	}
}

// TestACoordinatorThatFallsSilent is the same where nothing is ever answered, which takes real time: kafka-go waits for
// answers with a mutex held, and virtual time stands still then.
func TestACoordinatorThatFallsSilent(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	onEachBroker(t, func(t *testing.T, c *cluster) {
		t.Helper()
		if c.dial == nil {
			c.dial = new(net.Dialer).DialContext
		}
		c.cutOff(&proxy{hole: true}, time.Second, 500*time.Millisecond)
	})
}

// cutOff tells the story. The machine may take so long between looking at the lease and sending.
func (c *cluster) cutOff(p *proxy, after, slack time.Duration) {
	t := c.t
	t.Helper()
	p.dial, p.publish = c.dial, []byte(c.names.Decisions)
	c.heartbeat = 20 * time.Millisecond // as something to publish at any time
	client := kafkaio.New(kafkaio.Config{Brokers: c.brokers, Dial: p.connect})
	t.Cleanup(client.Close)
	a := c.joinBy(client, t.TempDir(), false)
	c.send(100)
	c.await(a)
	time.Sleep(after)
	p.setCut(true)
	c.send(100) // counted, and decided upon, by one who doesn't know yet
	b := c.join(t.TempDir())
	c.await(b) // which is when the session of the other has run out
	time.Sleep(kafkaio.DefaultMaxPause)
	p.mu.Lock()
	held, swallowed := p.published.Sub(p.proved), p.swallowed
	p.mu.Unlock()
	t.Logf("last published %v after the last proof was asked for, with a session of %v; %d requests lost", held, c.session, swallowed)
	lease := c.session - leaseMargin
	if held > lease+slack {
		t.Errorf("published %v after the last proof was asked for, want at most %v", held, lease)
	}
	if held < lease-2*c.heartbeat-slack || swallowed == 0 {
		t.Errorf("published %v after the last proof was asked for: it was not the lease that ended it", held)
	}
	if a.Ready(time.Now()) {
		t.Error("ready: got true without a lease")
	}
	c.wantClaimsLast(b)
	p.setCut(false)
	for deadline := time.Now().Add(time.Minute); len(a.Stats()) != 2 || len(b.Stats()) != 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("partitions afterwards: got %d and %d, want 2 each", len(a.Stats()), len(b.Stats()))
		}
	}
	c.send(100)
	c.await(a, b)
	c.leave(a)
	c.await(b)
	c.leave(b)
	c.compare(map[int]string{0: b.dir, 1: b.dir, 2: b.dir, 3: b.dir})
}

// An analyzer whose lease has run out, and which the group gives its partitions again, claims them anew: another one may have owned
// them meanwhile, and what its owners would do before they notice that does not count.
func TestAnAnalyzerThatMayHaveBeenReplacedClaimsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newVirtualCluster(t)
		p := &proxy{dial: c.dial, publish: []byte(c.names.Decisions)}
		client := kafkaio.New(kafkaio.Config{Brokers: c.brokers, Dial: p.connect})
		t.Cleanup(client.Close)
		a := c.joinBy(client, t.TempDir(), false)
		c.send(100)
		c.await(a)
		epochs := make(map[int]uint64)
		for _, s := range a.Stats() {
			epochs[s.Partition] = s.Publish.Epoch
		}
		p.setCut(true)
		time.Sleep(2 * c.session)
		if a.Ready(time.Now()) {
			t.Error("ready: got true without a lease")
		}
		p.setCut(false)
		for deadline := time.Now().Add(time.Minute); !a.Ready(time.Now()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("got it not ready within a minute")
			}
		}
		c.await(a)
		for _, s := range a.Stats() {
			if s.Publish.Epoch <= epochs[s.Partition] {
				t.Errorf("partition %d: got epoch %d still, want a new claim", s.Partition, s.Publish.Epoch)
			}
		}
		c.leave(a)
		c.compare(map[int]string{0: a.dir, 1: a.dir, 2: a.dir, 3: a.dir})
	})
}

// wantClaimsLast checks that in each partition everything behind the member's claim is the member's.
func (c *cluster) wantClaimsLast(m *member) {
	c.t.Helper()
	for _, s := range m.Stats() {
		_, end, err := c.client.Range(c.t.Context(), c.names.Decisions, s.Partition)
		if err != nil {
			c.t.Fatal(err)
		}
		claimed := false
		for next := int64(0); next < end; {
			batch, err := c.client.Fetch(c.t.Context(), kafkaio.FetchRequest{Topic: c.names.Decisions, Partition: s.Partition, Offset: next})
			if err != nil {
				c.t.Fatal(err)
			}
			for _, r := range batch.Records {
				rec, err := pb.Decode(r.Value)
				switch {
				case err != nil:
					c.t.Fatal(err)
				case rec.Claim != nil:
					claimed = claimed || rec.Claim.Epoch == s.Publish.Epoch
				case claimed && (rec.Heartbeat != nil && rec.Heartbeat.Epoch != s.Publish.Epoch || rec.Decision != nil && rec.Decision.Epoch != s.Publish.Epoch):
					c.t.Errorf("partition %d: got %+v behind the claim of epoch %d", s.Partition, rec, s.Publish.Epoch)
				}
			}
			next = batch.Next
		}
		if !claimed {
			c.t.Errorf("partition %d: got no claim of epoch %d", s.Partition, s.Publish.Epoch)
		}
	}
}

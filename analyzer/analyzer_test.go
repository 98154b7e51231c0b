package analyzer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// cluster is a broker with the topics of four partitions, and a generator that keeps the truth.
type cluster struct {
	t        *testing.T
	brokers  []string
	client   *kafkaio.Client
	names    schemas.TopicNames
	group    string
	session  time.Duration
	rules    *rules.Set
	truth    map[string]int64
	producer byte
	seq      [clusterPartitions]uint64

	dial      func(ctx context.Context, network, address string) (net.Conn, error) // nil is TCP
	logger    *slog.Logger                                                         // of members; nil discards
	heartbeat time.Duration                                                        // of members; 0 is the default
}

const clusterPartitions = 4

const countAll = `
version: 1
rules:
  - {name: all, callers: key, limit: 1000000000, window: 8760h, algorithm: fixed}
`

// newCluster starts an embedded broker.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	b, err := embedded.Start(embedded.Options{MinSession: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return clusterOn(t, b.Addrs(), 2*time.Second)
}

// clusterOn makes topics with names of their own.
func clusterOn(t *testing.T, brokers []string, session time.Duration) *cluster {
	t.Helper()
	return clusterBehind(t, brokers, session, nil)
}

// clusterBehind is clusterOn for brokers that are dialled in a way of their own.
func clusterBehind(t *testing.T, brokers []string, session time.Duration, dial func(context.Context, string, string) (net.Conn, error)) *cluster {
	t.Helper()
	c := &cluster{t: t, brokers: brokers, dial: dial, session: session, group: fmt.Sprintf("g%x", rand.Uint64()), truth: make(map[string]int64)}
	c.rules = mustRules(t, countAll)
	c.names = schemas.TopicNames{
		Requests: c.group + ".requests", Decisions: c.group + ".decisions", State: c.group + ".state", Rejects: c.group + ".rejects",
		Control: c.group + ".control",
	}
	c.client = kafkaio.New(kafkaio.Config{Brokers: brokers, Dial: dial})
	t.Cleanup(c.client.Close)
	if _, err := c.client.EnsureTopics(t.Context(), kafkaio.Specs(c.names, clusterPartitions)...); err != nil {
		t.Fatal(err)
	}
	return c
}

// onEachBroker runs a story on the embedded broker, and on the Apache Kafka of FLOODGATE_KAFKA if there is one.
func onEachBroker(t *testing.T, story func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { story(t, newCluster(t)) })
	t.Run("Apache Kafka", func(t *testing.T) {
		addrs := os.Getenv("FLOODGATE_KAFKA")
		if addrs == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		story(t, clusterOn(t, strings.Split(addrs, ","), kafkaio.DefaultSessionTimeout))
	})
}

// send sends one request of each of n callers.
func (c *cluster) send(n int) {
	c.t.Helper()
	key := schemas.DefaultPartitionKey()
	now := time.Now().UnixNano()
	frames := make([]schemas.Frame, clusterPartitions)
	for i := range n {
		id := fmt.Sprint("caller-", i)
		f := &frames[schemas.Partition(key.Hash("key", id), clusterPartitions)]
		f.Entries = append(f.Entries, schemas.Entry{Time: now, Kind: "key", ID: id, Count: 1})
		c.truth[id]++
	}
	for p := range frames {
		c.seq[p]++
		f := &frames[p]
		f.Producer, f.Seq, f.Flushed, f.Partitions, f.Fingerprint = schemas.ProducerID{3, c.producer}, c.seq[p], now, clusterPartitions, key.Fingerprint()
		value, err := f.AppendTo(nil)
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.client.Produce(c.t.Context(), c.names.Requests, p, kafkaio.Message{Time: now, Value: value}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// member is a running analyzer.
type member struct {
	*Analyzer
	dir  string
	stop context.CancelFunc
	done chan error
}

func (c *cluster) join(dir string) *member { c.t.Helper(); return c.joinAs(dir, false) }

// joinAs starts an analyzer, perhaps as a standby.
func (c *cluster) joinAs(dir string, standby bool) *member {
	c.t.Helper()
	return c.joinBy(c.client, dir, standby)
}

// joinBy is joinAs for one with a client of its own.
func (c *cluster) joinBy(client *kafkaio.Client, dir string, standby bool) *member {
	m := &member{dir: dir, done: make(chan error, 1)}
	m.Analyzer = New(client, Config{
		Dir: dir, SessionTimeout: c.session,
		Join: func() (Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{
				Client: client, Group: c.group, Topic: c.names.Requests, SessionTimeout: c.session,
				Held: m.Held, Standby: standby,
			})
		},
		Owner: OwnerConfig{
			Fold: fold.Options{Partitions: clusterPartitions}, Requests: c.names.Requests, Decisions: c.names.Decisions, State: c.names.State, Control: c.names.Control, Rejects: c.names.Rejects,
			Rules: c.rules, Snapshot: 500 * time.Millisecond, Checkpoint: 20 * time.Millisecond, Store: store.Options{NoSync: true},
			Logger: c.logger, Heartbeat: c.heartbeat,
		},
	})
	ctx, stop := context.WithCancel(c.t.Context())
	m.stop = stop
	go func() { m.done <- m.Run(ctx) }()
	return m
}

func (c *cluster) leave(m *member) {
	c.t.Helper()
	m.stop()
	if err := <-m.done; err != nil {
		c.t.Errorf("analyzer: %v", err)
	}
}

// await waits until the members together own all partitions and have counted all that the log holds.
func (c *cluster) await(members ...*member) {
	c.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !c.counted(members) {
		if time.Now().After(deadline) {
			for _, m := range members {
				c.t.Logf("%+v", m.Stats())
			}
			c.t.Fatal("not counted within 30s")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (c *cluster) counted(members []*member) bool {
	var owned []int
	for _, m := range members {
		stats := m.Stats()
		if !m.Ready(time.Now()) || len(stats) == 0 {
			return false
		}
		for _, s := range stats {
			_, end, err := c.client.Range(c.t.Context(), c.names.Requests, s.Partition)
			if err != nil || s.Next != end {
				return false
			}
			owned = append(owned, s.Partition)
		}
	}
	slices.Sort(owned)
	return slices.Equal(owned, []int{0, 1, 2, 3})
}

// compare compares the stores of the given partitions with the truth.
func (c *cluster) compare(dirs map[int]string) {
	c.t.Helper()
	held := make(map[string]int64)
	for p, dir := range dirs {
		f, _, err := Inspect(filepath.Join(dir, fmt.Sprint(p)), c.rules, fold.Options{})
		if err != nil {
			c.t.Fatal(err)
		}
		f.View().Rows(f.LogTime(), func(r fold.Row) bool { held[r.ID] = r.Total; return true })
	}
	for id, want := range c.truth {
		if held[id] != want {
			c.t.Errorf("%s: got %d, want %d", id, held[id], want)
		}
	}
}

func TestAnalyzersShareThePartitionsAndCountExactlyThroughHandOvers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join(t.TempDir())
	c.send(100)
	c.await(a)
	b := c.join(t.TempDir())
	for range 20 {
		c.send(100)
		time.Sleep(10 * time.Millisecond) // load, while the partitions move
	}
	c.await(a, b)
	if n, m := len(a.Stats()), len(b.Stats()); n != 2 || m != 2 {
		t.Errorf("partitions: got %d and %d, want 2 each", n, m)
	}
	c.send(100)
	c.leave(a)
	c.send(100)
	c.await(b)
	c.leave(b)
	c.compare(map[int]string{0: b.dir, 1: b.dir, 2: b.dir, 3: b.dir})
}

func TestAnOwnerThatFailsIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir := t.TempDir()
	locked, err := store.Open(filepath.Join(dir, "2"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	a := c.join(dir)
	c.send(50)
	deadline := time.Now().Add(20 * time.Second)
	for running := 0; running < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("owners: got %+v, want all but partition 2's running", a.Stats())
		}
		running = 0
		for _, s := range a.Stats() {
			if s.State == stateRunning {
				running++
			}
		}
	}
	if a.Ready(time.Now()) {
		t.Error("ready: got true while partition 2 has no owner")
	}
	if err := locked.Close(); err != nil {
		t.Fatal(err)
	}
	c.await(a)
	c.leave(a)
	c.compare(map[int]string{0: dir, 1: dir, 2: dir, 3: dir})
}

func TestAGroupThatCannotBeJoinedEndsTheAnalyzer(t *testing.T) {
	a := New(nil, Config{Join: func() (Membership, error) { return nil, errInjected }})
	if err := a.Run(t.Context()); !errors.Is(err, errInjected) {
		t.Errorf("got %v, want %v", err, errInjected)
	}
}

func TestRulesReachAllOwners(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join(t.TempDir())
	c.send(40)
	c.await(a)
	two := mustRules(t, "version: 1\nrules:\n  - {name: all, callers: key, limit: 2, window: 8760h, algorithm: fixed}\n")
	a.SetRules(two)
	c.send(40)
	c.await(a)
	closes := uint64(0)
	for _, s := range a.Stats() {
		closes += s.Fold.Closes
	}
	if closes != 40 {
		t.Errorf("closes: got %d, want each of 40 callers at its second request", closes)
	}
	c.leave(a)
	if _, err := os.Stat(filepath.Join(a.dir, "3")); err != nil {
		t.Error(err)
	}
}

// TestAnAnalyzerWithoutKafkaIsNotReady, and does not claim that its owners run: they can neither count nor publish.
func TestAnAnalyzerWithoutKafkaIsNotReady(t *testing.T) {
	away := false
	a := New(nil, Config{Outage: func(time.Time) (kafkaio.Outage, bool) { return kafkaio.Outage{}, away }})
	a.lease.renew(time.Now())
	states := []State{stateRunning, stateMemoryOnly, stateRestoring}
	check := func(ready bool, want ...State) {
		t.Helper()
		for p, s := range a.Stats() {
			if s.State != want[p] {
				t.Errorf("partition %d, away %t: got state %v, want %v", p, away, s.State, want[p])
			}
		}
		if got := a.Ready(time.Now()); got != ready {
			t.Errorf("away %t: got ready %t, want %t", away, got, ready)
		}
	}
	for p, s := range states {
		o := NewOwner(nil, OwnerConfig{Rules: &rules.Set{}})
		o.ledger.enter(s)
		a.owners[p] = &ownerRun{owner: o}
	}
	check(false, states...)
	delete(a.owners, 2)
	check(true, states...)
	away = true
	check(false, stateKafkaAway, stateKafkaAway)
	delete(a.owners, 1)
	delete(a.owners, 0)
	a.standby.Store(true)
	check(false)
}

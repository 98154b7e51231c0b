package kafkaio

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	kafka "github.com/segmentio/kafka-go"
)

// TestEmbedded and TestApacheKafka run the same suite: what holds on the embedded broker must hold on Apache Kafka.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	suite(t, startBroker(t, embedded.Options{}).Addrs(), false)
}

func TestApacheKafka(t *testing.T) {
	addrs := os.Getenv("FLOODGATE_KAFKA")
	if addrs == "" {
		t.Skip("FLOODGATE_KAFKA is not set: give host:port of an Apache Kafka to run the suite there too")
	}
	suite(t, strings.Split(addrs, ","), true)
}

// suite tries a Client against brokers that it knows nothing of. It makes topics of its own with random names. Only Apache
// Kafka itself enforces message times.
func suite(t *testing.T, addrs []string, apache bool) {
	run := func(name string, f func(t *testing.T, c *Client, topic string)) {
		t.Run(name, func(t *testing.T) {
			c := startClient(t, Config{Brokers: addrs})
			topic := fmt.Sprintf("suite-%08x", rand.Uint32())
			makeTopic(t, c, topic, 2)
			f(t, c, topic)
		})
	}
	run("versions", func(t *testing.T, c *Client, _ string) {
		t.Helper()
		if err := c.CheckBrokers(t.Context()); err != nil {
			t.Error(err)
		}
	})
	run("all codecs", testAllCodecs)
	run("a batch over what is read", testLongBatch)
	run("a batch that unpacks to much", testBatchInPieces)
	run("topics", testTopics)
	run("identity", testIdentity)
	run("group", testGroup)
	run("group of two", testTwoMembers)
	if apache {
		run("zombie", testZombie) // waits for Apache Kafka's shortest session; TestCommitIsRefusedToAZombie is quicker
	}
}

func testAllCodecs(t *testing.T, c *Client, topic string) {
	var want []string
	for codec := range kafka.Compression(5) { // kafka-go packs; 0 is none
		text := strings.Repeat(codec.String()+" ", 1000)
		r, err := c.admin.Produce(t.Context(), &kafka.ProduceRequest{
			Topic: topic, Partition: 0, RequiredAcks: kafka.RequireAll, Compression: codec,
			Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte(text))}, kafka.Record{Value: kafka.NewBytes([]byte("and one more"))}),
		})
		if err != nil || r.Error != nil {
			t.Fatal(codec, err, r.Error)
		}
		want = append(want, text, "and one more")
	}
	if got := valuesOf(fetchAll(t, c, topic, 0, 0)); !slices.Equal(got, want) {
		t.Errorf("got %d values, want %d, or they differ", len(got), len(want))
	}
}

func testTopics(t *testing.T, c *Client, topic string) {
	names := schemas.TopicNames{Requests: topic + ".requests", Decisions: topic + ".decisions", State: topic + ".state", Rejects: topic + ".rejects"}
	specs := Specs(names, 3)
	found, err := c.CheckTopics(t.Context(), specs...)
	if err != nil || len(found) != 4 || found[0].Setting != "topic" || found[0].Severity != Error {
		t.Fatalf("before: got %v and %v, want four missing topics", found, err)
	}
	created, err := c.EnsureTopics(t.Context(), specs...)
	if err != nil || !slices.Equal(created, []string{names.Requests, names.Decisions, names.State, names.Rejects}) {
		t.Fatalf("got %v and %v, want all four", created, err)
	}
	if created, err = c.EnsureTopics(t.Context(), specs...); err != nil || created != nil {
		t.Errorf("again: got %v and %v, want none", created, err)
	}
	if found, err = c.CheckTopics(t.Context(), specs...); err != nil || len(found) != 0 {
		t.Errorf("after: got %v and %v, want nothing to find", found, err)
	}
	for name, want := range map[string]int{names.Requests: 3, names.State: 3, names.Rejects: 1} {
		if n, err := c.Partitions(t.Context(), name); n != want || err != nil {
			t.Errorf("%s: got %d partitions and %v, want %d", name, n, err, want)
		}
	}
	for p := range 3 { // all have leaders: the first produce works
		produce(t, c, names.Requests, p, "x")
	}
}

func testGroup(t *testing.T, c *Client, topic string) {
	g, err := NewGroup(GroupConfig{Client: c, Group: "group-" + topic, Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	gen := nextGeneration(t, g)
	if !slices.Equal(gen.Partitions, []int{0, 1}) || gen.Committed[0] != -1 || gen.Committed[1] != -1 {
		t.Errorf("got partitions %v, committed %v, want both and nothing", gen.Partitions, gen.Committed)
	}
	if err := gen.Commit(map[int]int64{0: 10, 1: 0}); err != nil {
		t.Fatal(err)
	}
	if err := gen.Commit(map[int]int64{2: 1}); err == nil {
		t.Error("got no error on another's partition")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gen.Done():
	default:
		t.Error("got a generation that goes on after Close")
	}
	g, err = NewGroup(GroupConfig{Client: c, Group: "group-" + topic, Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if gen = nextGeneration(t, g); gen.Committed[0] != 10 || gen.Committed[1] != 0 {
		t.Errorf("got committed %v, want what was committed before", gen.Committed)
	}
}

// nextGeneration waits for a generation, whatever it takes the group to rebalance.
func nextGeneration(t *testing.T, g *Group) *Generation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		gen, err := g.Next(ctx)
		if err == nil {
			return gen
		}
		if !Temporary(err) {
			t.Fatal(err)
		}
	}
}

// testTwoMembers lets one come and go again.
func testTwoMembers(t *testing.T, c *Client, topic string) {
	config := GroupConfig{Client: c, Group: "group-" + topic, Topic: topic}
	var wg sync.WaitGroup
	defer wg.Wait()
	a := join(t, &wg, config)
	defer a.Close()
	awaitOwned(t, 2, a)
	b := join(t, &wg, config)
	defer b.Close()
	awaitOwned(t, 2, a, b)
	start := time.Now()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	awaitOwned(t, 2, a)
	t.Logf("planned hand-over in %v", time.Since(start))
}

// testZombie cuts a member off until another has its partitions.
func testZombie(t *testing.T, c *Client, topic string) {
	var w weather
	cut := startClient(t, Config{Brokers: c.config.Brokers, Dial: w.dial})
	config := GroupConfig{Client: cut, Group: "group-" + topic, Topic: topic}
	zombie, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer zombie.Close()
	gen := nextGeneration(t, zombie)
	if err := gen.Commit(map[int]int64{0: 1}); err != nil {
		t.Fatal(err)
	}
	w.hole.Store(true)
	config.Client = c
	heir, err := NewGroup(config)
	if err != nil {
		t.Fatal(err)
	}
	defer heir.Close()
	start := time.Now()
	next := nextGeneration(t, heir)
	t.Logf("took over after %v", time.Since(start))
	if !slices.Equal(next.Partitions, []int{0, 1}) || next.Committed[0] != 1 {
		t.Errorf("got %v at %v, want both where they were left", next.Partitions, next.Committed)
	}
	if err := next.Commit(map[int]int64{0: 2}); err != nil {
		t.Error(err)
	}
	w.hole.Store(false)
	if err := gen.Commit(map[int]int64{0: 99}); err == nil {
		t.Error("got a lease for a zombie")
	}
}

package kafkaio

import (
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

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

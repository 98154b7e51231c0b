package kafkaio

import (
	"errors"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// testIdentity: the same topic has the same identity whenever it is asked for, another topic has another, and so has one that was
// made anew under the old name.
func testIdentity(t *testing.T, c *Client, topic string) {
	other := topic + "-other"
	makeTopic(t, c, other, 3)
	first, err := c.Identity(t.Context(), topic, other)
	if err != nil || first.Cluster == "" || len(first.Topics) != 2 || len(first.Topics[topic]) != 32 || first.Topics[topic] == first.Topics[other] {
		t.Fatalf("got %+v, %v, want a cluster and two topics, each with an id of its own", first, err)
	}
	again, err := c.Identity(t.Context(), topic)
	if err != nil || again.Cluster != first.Cluster || len(again.Topics) != 1 || again.Topics[topic] != first.Topics[topic] {
		t.Errorf("asked again: got %+v, %v, want as in %+v", again, err, first)
	}
	if r, err := c.admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{other}}); err != nil || r.Errors[other] != nil {
		t.Fatal(err, r.Errors)
	}
	becomes(t, "the topic to be gone", func() bool {
		_, err := c.Identity(t.Context(), other)
		return errors.Is(err, ErrNoTopic)
	})
	becomes(t, "the topic to be made anew", func() bool {
		_, err := c.EnsureTopics(t.Context(), TopicSpec{Name: other, Partitions: 3})
		return err == nil
	})
	if anew, err := c.Identity(t.Context(), other); err != nil || anew.Topics[other] == first.Topics[other] || anew.Cluster != first.Cluster {
		t.Errorf("made anew: got %+v, %v, want another topic of the same cluster than in %+v", anew, err, first)
	}
}

// becomes waits until a condition holds.
func becomes(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("want %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestClustersHaveIdentities: two clusters with topics of one name differ.
func TestClustersHaveIdentities(t *testing.T) {
	var ids []Identity
	for _, name := range []string{"one", "two"} {
		c := startClient(t, Config{Brokers: startBroker(t, embedded.Options{Cluster: []kfake.Opt{kfake.ClusterID(name)}}).Addrs()})
		makeTopic(t, c, "requests", 1)
		id, err := c.Identity(t.Context(), "requests")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0].Cluster == ids[1].Cluster || ids[0].Topics["requests"] == ids[1].Topics["requests"] {
		t.Errorf("got %+v and %+v, want nothing in common", ids[0], ids[1])
	}
}

// TestOldBrokersHaveNoTopicIDs, and that is no error.
func TestOldBrokersHaveNoTopicIDs(t *testing.T) {
	c := startClient(t, Config{Brokers: startBroker(t, embedded.Options{Cluster: []kfake.Opt{kfake.MaxVersions(kversion.V2_4_0())}}).Addrs()})
	makeTopic(t, c, "requests", 1)
	if id, err := c.Identity(t.Context(), "requests"); err != nil || id.Cluster == "" || len(id.Topics) != 0 {
		t.Errorf("got %+v, %v, want a cluster and no topics", id, err)
	}
}

// FuzzTopicIDs: whatever a broker answers, nothing breaks, and no more memory is taken than the answer has.
func FuzzTopicIDs(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x02\x00\x00\x02t0123456789abcdef\x00\x01\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		ids, err := decodeTopicIDs(body)
		if err == nil && len(ids)*20 > len(body) {
			t.Errorf("got %d ids of %d bytes", len(ids), len(body))
		}
	})
}

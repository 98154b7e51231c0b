package embedded_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// virtual starts a broker in a synctest bubble and returns how to reach it.
func virtual(t *testing.T) (config kafkaio.Config) {
	t.Helper()
	network := new(kfake.VirtualNetwork)
	start(t, embedded.Options{Listen: "127.0.0.1:9092", Cluster: []kfake.Opt{kfake.ListenFn(network.Listen)}})
	return kafkaio.Config{Brokers: []string{"127.0.0.1:9092"}, Dial: network.DialContext}
}

func newClient(t *testing.T, config kafkaio.Config) *kafkaio.Client {
	t.Helper()
	c := kafkaio.New(config)
	t.Cleanup(c.Close)
	return c
}

func makeTopic(t *testing.T, c *kafkaio.Client, records int) {
	t.Helper()
	if _, err := c.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if _, err := c.Produce(t.Context(), "t", 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
}

func deleteTopic(t *testing.T, config kafkaio.Config) {
	t.Helper()
	transport := &kafka.Transport{Dial: config.Dial}
	defer transport.CloseIdleConnections()
	admin := &kafka.Client{Addr: kafka.TCP(config.Brokers...), Transport: transport}
	if r, err := admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{"t"}}); err != nil || r.Errors["t"] != nil {
		t.Fatal(err, r.Errors)
	}
}

// TestAReaderThatWaitsNoticesANewTopic: the topic is deleted, made anew at once, and filled beyond where the reader is. In whichever
// part of its wait that meets a reader, it gets ErrTruncated, and no record of the new topic before.
func TestAReaderThatWaitsNoticesANewTopic(t *testing.T) {
	for phase := time.Millisecond; phase < 2*kafkaio.DefaultMaxWait; phase += 37 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			config := virtual(t)
			writer, reader := newClient(t, config), newClient(t, config)
			makeTopic(t, writer, 3)
			cursor := kafkaio.NewCursor(reader, kafkaio.CursorConfig{Topic: "t", Retry: kafkaio.Always, Logger: slog.New(slog.DiscardHandler)})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var values []string
			ended := make(chan error, 1)
			go func() {
				batches := make(chan kafkaio.Batch)
				go func() {
					for b := range batches {
						for _, r := range b.Records {
							values = append(values, string(r.Value))
						}
					}
				}()
				ended <- cursor.Run(ctx, batches)
			}()
			time.Sleep(phase)
			deleteTopic(t, config)
			began := time.Now()
			makeTopic(t, writer, 10)
			if took := time.Since(began); took < embedded.DeletionTime || took > 2*embedded.DeletionTime {
				t.Errorf("phase %v: the new topic took %v, want about %v", phase, took, embedded.DeletionTime)
			}
			if err := <-ended; !errors.Is(err, kafkaio.ErrTruncated) {
				t.Errorf("phase %v: got %v, want ErrTruncated", phase, err)
			}
			synctest.Wait()
			if !slices.Equal(values, []string{"0", "1", "2"}) {
				t.Errorf("phase %v: got %q, want the old topic's", phase, values)
			}
		})
	}
}

// TestOtherNamesNeedNotWait, nor does a name whose deletion is over. A topic that is deleted by its id has a name, too.
func TestOtherNamesNeedNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := virtual(t)
		c := newClient(t, config)
		makeTopic(t, c, 0)
		began := time.Now()
		id, err := c.Identity(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		deleteByID(t, config, id.Topics["t"])
		if _, err := c.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "u", Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took >= embedded.DeletionTime {
			t.Errorf("another name took %v", took)
		}
		makeTopic(t, c, 0)
		if took := time.Since(began); took < embedded.DeletionTime {
			t.Errorf("the same name took %v, want at least %v", took, embedded.DeletionTime)
		}
		deleteTopic(t, config)
		time.Sleep(embedded.DeletionTime)
		began = time.Now()
		makeTopic(t, c, 0)
		if took := time.Since(began); took >= embedded.DeletionTime/2 {
			t.Errorf("later it took %v, want no wait", took)
		}
	})
}

// deleteByID deletes a topic as clients since Kafka 2.8 can.
func deleteByID(t *testing.T, config kafkaio.Config, id string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(config.Brokers...), kgo.Dialer(config.Dial))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	if n, err := hex.Decode(topic.TopicID[:], []byte(id)); n != len(topic.TopicID) || err != nil {
		t.Fatal(n, err)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
}

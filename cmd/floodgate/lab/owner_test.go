//go:build lab

package lab

import (
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// owner is the owner of the only partition of decisions in a Kafka of the test's own. It decides what the test wants, and sends heartbeats.
type owner struct {
	t      *testing.T
	broker *embedded.Broker
	client *kafkaio.Client

	mu  sync.Mutex
	seq uint64 // guarded by mu
}

func newOwner(t *testing.T) *owner {
	t.Helper()
	o := &owner{t: t, broker: serveKafka(t, embedded.Options{})}
	o.client = kafkaio.New(kafkaio.Config{Brokers: []string{o.broker.Addr()}})
	t.Cleanup(o.client.Close)
	if _, err := o.client.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), 1)...); err != nil {
		t.Fatal(err)
	}
	o.beat()
	var beating sync.WaitGroup
	stop := make(chan struct{})
	beating.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				o.beat()
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); beating.Wait() })
	return o
}

// write appends a record to the partition of decisions.
func (o *owner) write(encode func(seq uint64) ([]byte, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seq++
	value, err := encode(o.seq)
	if err == nil {
		_, err = o.client.Produce(o.t.Context(), schemas.DefaultTopicNames().Decisions, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
	}
	if err != nil && o.t.Context().Err() == nil {
		o.t.Error(err)
	}
}

func (o *owner) beat() {
	o.write(func(seq uint64) ([]byte, error) {
		return pb.AppendHeartbeat(nil, &schemas.Heartbeat{Epoch: 1, Seq: seq, Time: time.Now().UnixNano()})
	})
}

// decide publishes a decision under the owner's epoch.
func (o *owner) decide(d *schemas.Decision) {
	o.write(func(seq uint64) ([]byte, error) {
		d.Epoch, d.Seq = 1, seq
		return pb.AppendDecision(nil, d)
	})
}

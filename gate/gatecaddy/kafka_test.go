package gatecaddy_test

import (
	"context"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// kafka is a broker that can go and come back at its address, and the analyzer of its one partition.
type kafka struct {
	t       testing.TB
	options embedded.Options
	broker  *embedded.Broker
	client  *kafkaio.Client
	seq     uint64
}

func newKafka(t testing.TB, options embedded.Options) *kafka {
	t.Helper()
	k := &kafka{t: t, options: options}
	k.start()
	t.Cleanup(k.stop)
	k.client = kafkaio.New(kafkaio.Config{Brokers: []string{k.address()}})
	t.Cleanup(k.client.Close)
	if _, err := k.client.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), 1)...); err != nil {
		t.Fatal(err)
	}
	claim, err := pb.AppendClaim(nil, &schemas.Claim{Epoch: 1, Nonce: 1, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	k.publish(claim)
	return k
}

func (k *kafka) start() {
	k.t.Helper()
	var err error
	if k.broker, err = embedded.Start(k.options); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kafka) stop() { _ = k.broker.Close() }

// address is where Caddy finds it.
func (k *kafka) address() string { return k.broker.Addr() }

func (k *kafka) publish(records ...[]byte) {
	k.t.Helper()
	messages := make([]kafkaio.Message, len(records))
	for i, r := range records {
		messages[i] = kafkaio.Message{Time: time.Now().UnixNano(), Value: r}
	}
	if _, err := k.client.Produce(k.t.Context(), schemas.DefaultTopicNames().Decisions, 0, messages...); err != nil {
		k.t.Fatal(err)
	}
}

// close closes callers for so long.
func (k *kafka) close(long time.Duration, callers ...schemas.Caller) {
	k.t.Helper()
	now := time.Now()
	var records [][]byte
	for _, c := range callers {
		k.seq++
		r, err := pb.AppendDecision(nil, &schemas.Decision{
			Rule: "per-" + c.Kind, Caller: c, Mode: schemas.ModeEnforce, Epoch: 1, Seq: k.seq,
			CloseAt: now.UnixNano(), Until: now.Add(long).UnixNano(), Evidence: schemas.Evidence{Limit: 100, Window: int64(time.Minute)},
		})
		if err != nil {
			k.t.Fatal(err)
		}
		records = append(records, r)
	}
	k.publish(records...)
}

// entries gives each entry of the log to see, of each frame once.
func (k *kafka) entries(see func(schemas.Entry)) {
	k.t.Helper()
	type frame struct {
		producer schemas.ProducerID
		seq      uint64
	}
	seen := map[frame]bool{}
	topic := schemas.DefaultTopicNames().Requests
	next, end, err := k.client.Range(context.Background(), topic, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	for next < end {
		b, err := k.client.Fetch(context.Background(), kafkaio.FetchRequest{Topic: topic, Offset: next})
		if err != nil {
			k.t.Fatal(err)
		}
		next = b.Next
		var f schemas.Frame
		for _, r := range b.Records {
			if err := f.Decode(r.Value); err != nil {
				k.t.Fatal(err)
			}
			if id := (frame{f.Producer, f.Seq}); !seen[id] {
				seen[id] = true
				for _, e := range f.Entries {
					see(e)
				}
			}
		}
	}
}

func key(id string) schemas.Caller { return schemas.Caller{Kind: "key", ID: id} }

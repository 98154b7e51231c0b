package kafkalink

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// onEachBroker runs a story on the embedded broker, and on the Apache Kafka of FLOODGATE_KAFKA if there is one.
func onEachBroker(t *testing.T, story func(t *testing.T, brokers []string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		b, err := embedded.Start(embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		story(t, b.Addrs())
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		addrs := os.Getenv("FLOODGATE_KAFKA")
		if addrs == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		story(t, strings.Split(addrs, ","))
	})
}

// shifted is a client on a machine whose clock is off.
type shifted struct {
	Log
	off *atomic.Int64 // nanoseconds
}

func (c shifted) Produce(ctx context.Context, topic string, p int, msgs ...kafkaio.Message) (int64, error) {
	for i := range msgs {
		msgs[i].Time += c.off.Load()
	}
	return c.Log.Produce(ctx, topic, p, msgs...)
}

// A link on a broker: requests go out, decisions come in, and a clock that is an hour ahead is found out: both brokers
// refuse its frames by message.timestamp.after.max.ms. Every request is accounted for.
func TestALinkOnEachBroker(t *testing.T) {
	onEachBroker(t, func(t *testing.T, brokers []string) {
		t.Helper()
		const partitions = 2
		prefix := "link-" + rand.Text()
		names := schemas.TopicNames{
			Requests: prefix + ".requests", Decisions: prefix + ".decisions", State: prefix + ".state",
			Rejects: prefix + ".rejects",
		}
		c := kafkaio.New(kafkaio.Config{Brokers: brokers})
		defer c.Close()
		if _, err := c.EnsureTopics(t.Context(), kafkaio.Specs(names, partitions)...); err != nil {
			t.Fatal(err)
		}
		var logs safeLog
		set, rec := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)}), record.New(record.Options{})
		keys := set.Gate("key")
		var off atomic.Int64
		link, err := Open(set, rec, Config{
			Log: shifted{c, &off}, Topics: names, Canary: -1, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer link.Close()
		if err := link.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		send := func(n int) {
			for i := range n {
				var callers gate.Callers
				callers.Add(keys, fmt.Sprint("key-", i))
				rec.Record(&callers, set.Check(&callers), record.Request{Resource: "/"})
			}
			eventually(t, "everything settled", func() bool { return rec.Stats().Queued == 0 })
		}
		send(100)
		p := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", "key-3"), partitions)
		now := time.Now()
		if _, err := c.Produce(t.Context(), names.Decisions, p,
			kafkaio.Message{Time: now.UnixNano(), Value: encode(pb.Record{Claim: &schemas.Claim{Partition: int32(p), Epoch: 1}})},
			kafkaio.Message{Time: now.UnixNano(), Value: encode(pb.Record{Decision: &schemas.Decision{
				Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "key-3"}, Mode: schemas.ModeEnforce, Partition: int32(p),
				Epoch: 1, Seq: 1, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
			}})}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "key-3 closed", func() bool { return keys.Closed("key-3") })

		off.Store(int64(time.Hour))
		send(50)
		off.Store(0)
		send(25)
		const want = 175 - 50
		s := rec.Stats()
		if s.Acked != want || s.Dropped[record.ClockAhead] != 175-want || s.Accepted != 175 {
			t.Errorf("got %+v, want %d acknowledged, and the others dropped because the clock was ahead", s, want)
		}
		lines := strings.Count(logs.String(), "clock is ahead") + strings.Count(logs.String(), "clock is right again")
		if lines != 2 || !link.Stats().Connected {
			t.Errorf("got logs %s, connected %v, want the clock's error and its end, and a link that is up",
				logs.String(), link.Stats().Connected)
		}
	})
}

// safeLog is where goroutines may log while a test reads.
type safeLog struct {
	mu   sync.Mutex // protects text
	text strings.Builder
}

func (l *safeLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

package analyzer

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/analyzer/repartition"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// widen lets a topic take batches of 100 MB.
func (c *cluster) widen(topics ...string) {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, topic := range topics {
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		for name, value := range map[string]string{
			"max.message.bytes":  "100000000",
			kafkaio.SettingAhead: "9223372036854775807", // the embedded broker takes packed batches only where times are not bounded
		} {
			setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			setting.Name, setting.Value = name, &value
			res.Configs = append(res.Configs, setting)
		}
		req.Resources = append(req.Resources, res)
	}
	resp, err := req.RequestWith(c.t.Context(), client)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range resp.Resources {
		if r.ErrorCode != 0 {
			c.t.Fatalf("%s: code %d", r.ResourceName, r.ErrorCode)
		}
	}
}

// sendLong appends a batch of three messages and 66 MiB.
func (c *cluster) sendLong(topic string, partition int) {
	c.t.Helper()
	third := kafkaio.Message{Time: time.Now().UnixNano(), Value: make([]byte, 22<<20)}
	if _, err := c.client.Produce(c.t.Context(), topic, partition, third, third, third); err != nil {
		c.t.Fatal(err)
	}
}

// skipLog counts the log lines about skipped records, by topic; that of requests is not named.
type skipLog struct {
	mu    sync.Mutex
	lines map[string]int
}

func (*skipLog) Enabled(context.Context, slog.Level) bool { return true }
func (s *skipLog) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s *skipLog) WithGroup(string) slog.Handler          { return s }
func (s *skipLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "skipped records") {
		topic := ""
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "topic" {
				topic = a.Value.String()
			}
			return true
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines[topic]++
	}
	return nil
}

func (s *skipLog) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.lines)
}

// TestALongMessageStopsNoPartition puts batches that are too long to be read among requests, decisions and state. The owner
// counts what is before and behind, says once what it skipped, and goes on after a restart, also without its store; the
// audit skips the same offsets.
func TestALongMessageStopsNoPartition(t *testing.T) {
	testenv.Long(t)
	onEachBroker(t, func(t *testing.T, c *cluster) {
		t.Helper()
		const p = 2
		c.widen(c.names.Requests, c.names.Decisions, c.names.State)
		logged := &skipLog{lines: make(map[string]int)}
		c.logger = slog.New(logged)
		dir := t.TempDir()
		a := c.join(dir)
		c.send(100)
		c.sendLong(c.names.Requests, p)
		c.send(100)
		c.await(a)
		if got := a.Stats()[p].Fold.Rejected; got["too_large"] != 3 {
			t.Errorf("got %v refused, want the three messages", got)
		}
		if got := logged.counted()[""]; got != 1 {
			t.Errorf("got %d log lines, want one", got)
		}
		for _, r := range c.rejected(p) {
			if r.Offset != 1 || r.Reason != "too_large" || !strings.HasPrefix(r.Line, "offsets 1 to 3: too large") {
				t.Errorf("got reject %+v, want offsets 1 to 3", r)
			}
		}
		c.leave(a)
		report, err := audit.Run(t.Context(), c.client, audit.Config{
			Fold: fold.Options{Partition: p, Partitions: clusterPartitions}, Requests: c.names.Requests, Control: c.names.Control,
			Dir: filepath.Join(dir, fmt.Sprint(p)), Rules: c.rules, Store: store.Options{NoSync: true},
		})
		if err != nil || !report.Exact() || report.Agreed == 0 || report.Log.Rejected["too_large"] != 3 {
			t.Errorf("audit: got %+v and %v, want it exact, and the same three skipped", report, err)
		}
		c.sendLong(c.names.Decisions, p)
		c.sendLong(c.names.State, p)
		for _, dir := range []string{dir, t.TempDir()} { // the next has no store: it restores from state and requests
			a = c.join(dir)
			c.send(100)
			c.await(a)
			c.leave(a)
			c.compare(map[int]string{0: dir, 1: dir, 2: dir, 3: dir})
		}
		if logged.counted()[c.names.Decisions] == 0 {
			t.Error("got no log line about the decisions that were skipped")
		}
		c.repartitionAll(p)
	})
}

// rejected returns what was written to the topic of rejects about a partition of requests.
func (c *cluster) rejected(partition int) (all []reject.Reject) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for at := int64(0); len(all) == 0; {
		b, err := c.client.Fetch(c.t.Context(), kafkaio.FetchRequest{Topic: c.names.Rejects, Offset: at, MaxWait: 100 * time.Millisecond})
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range b.Records {
			r, err := reject.Decode(b.Records[i].Value)
			if err != nil {
				c.t.Fatal(err)
			}
			if r.Source == fmt.Sprintf("kafka:%s/%d", c.names.Requests, partition) {
				all = append(all, r)
			}
		}
		at = b.Next
		if time.Now().After(deadline) {
			c.t.Fatal("no reject within 20s")
		}
	}
	return all
}

// repartitionAll writes the requests to another topic, which must end, and say what it skipped.
func (c *cluster) repartitionAll(long int) {
	c.t.Helper()
	logged := &skipLog{lines: make(map[string]int)}
	names := c.names
	names.Requests += ".repartitioned"
	if _, err := c.client.EnsureTopics(c.t.Context(), kafkaio.Specs(names, 1)[0]); err != nil {
		c.t.Fatal(err)
	}
	m := repartition.New(c.client, repartition.Config{
		Fold: fold.Options{Partitions: clusterPartitions}, From: c.names.Requests, To: names.Requests, Targets: 1, Logger: slog.New(logged),
	})
	if err := m.Run(c.t.Context()); err != nil || m.Behind() != 0 {
		c.t.Errorf("repartition: got %v, %d behind", err, m.Behind())
	}
	if got := logged.counted()[""]; got != 1 {
		c.t.Errorf("repartition: got %d log lines about partition %d, want one", got, long)
	}
}

// sendLarge sends, as one packed batch, frames that take 20 MB once unpacked: each caller of a partition in each of them.
func (c *cluster) sendLarge(partition, frames int) {
	c.t.Helper()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := kafka.Client{Addr: kafka.TCP(c.brokers...), Transport: transport, Timeout: 30 * time.Second}
	key, now := schemas.DefaultPartitionKey(), time.Now()
	var entries []schemas.Entry
	for i := 0; len(entries) < 1000; i++ {
		id := fmt.Sprint("caller-with-a-long-name-", i)
		if schemas.Partition(key.Hash("key", id), clusterPartitions) == partition {
			entries = append(entries, schemas.Entry{Time: now.UnixNano(), Kind: "key", ID: id, Count: 1})
			c.truth[id] += int64(frames)
		}
	}
	records := make([]kafka.Record, frames)
	for i := range records {
		c.seq[partition]++
		value, err := (&schemas.Frame{
			Producer: schemas.ProducerID{3, c.producer}, Seq: c.seq[partition], Flushed: now.UnixNano(), Partitions: clusterPartitions,
			Fingerprint: key.Fingerprint(), Entries: entries,
		}).AppendTo(nil)
		if err != nil {
			c.t.Fatal(err)
		}
		records[i] = kafka.Record{Time: now, Value: kafka.NewBytes(value)}
	}
	r, err := client.Produce(c.t.Context(), &kafka.ProduceRequest{
		Topic: c.names.Requests, Partition: partition, RequiredAcks: kafka.RequireAll, Compression: kafka.Gzip, Records: kafka.NewRecordReader(records...),
	})
	if err != nil || r.Error != nil {
		c.t.Fatal(err, r)
	}
}

// TestALargeBatchIsCountedInPieces: each frame of a batch that unpacks past what is unpacked at once counts once, also
// where the owner is stopped amid it. The audit finds the same.
func TestALargeBatchIsCountedInPieces(t *testing.T) {
	testenv.Long(t)
	onEachBroker(t, func(t *testing.T, c *cluster) {
		t.Helper()
		const p, frames = 1, 1000
		c.widen(c.names.Requests)
		c.sendLarge(p, frames)
		c.send(100)
		dir := t.TempDir()
		a := c.join(dir)
		deadline := time.Now().Add(20 * time.Second)
		for started := false; !started; time.Sleep(time.Millisecond) {
			for _, s := range a.Stats() {
				started = started || s.Partition == p && s.Next > 0
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing counted within 20s")
			}
		}
		c.leave(a)
		_, at, err := Inspect(filepath.Join(dir, fmt.Sprint(p)), c.rules, fold.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("stopped at offset %d of %d", at.Next, frames)
		a = c.join(dir)
		c.await(a)
		if got := a.Stats()[p].Fold; len(got.Rejected) != 0 {
			t.Errorf("got %v refused, want nothing", got.Rejected)
		}
		c.leave(a)
		c.compare(map[int]string{0: dir, 1: dir, 2: dir, 3: dir})
		report, err := audit.Run(t.Context(), c.client, audit.Config{
			Fold: fold.Options{Partition: p, Partitions: clusterPartitions}, Requests: c.names.Requests, Control: c.names.Control,
			Dir: filepath.Join(dir, fmt.Sprint(p)), Rules: c.rules, Store: store.Options{NoSync: true},
		})
		if err != nil || !report.Exact() || report.Agreed < 1000 || len(report.Log.Rejected) != 0 {
			t.Errorf("audit: got %+v and %v, want it exact", report, err)
		}
	})
}

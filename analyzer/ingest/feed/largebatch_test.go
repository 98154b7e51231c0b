package feed

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// stopAt cancels a reader once it has asked for an offset, as a restart in the middle of a batch does.
type stopAt struct {
	kafkaio.Fetcher

	offset  int64
	stop    context.CancelFunc
	largest int
}

func (s *stopAt) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	if r.Offset >= s.offset {
		s.stop()
	}
	b, err := s.Fetcher.Fetch(ctx, r)
	s.largest = max(s.largest, len(b.Records))
	return b, err
}

// shipBatch appends lines as one packed batch, and returns the truth about them.
func shipBatch(t *testing.T, brokers []string, topic string, codec kafka.Compression, lines int) map[string]int {
	t.Helper()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	c := kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport, Timeout: 30 * time.Second}
	truth := make(map[string]int)
	records := make([]kafka.Record, lines)
	for i := range records {
		id := fmt.Sprint("caller-", i*i%97)
		records[i].Value = kafka.NewBytes(fmt.Appendf(nil, `{"time":%d,"k":{"id":%q},"agent":"Mozilla/5.0 (X11; Linux x86_64)"}`, i, id))
		truth["key:"+id]++
	}
	r, err := c.Produce(t.Context(), &kafka.ProduceRequest{
		Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codec, Records: kafka.NewRecordReader(records...),
	})
	if err != nil || r.Error != nil {
		t.Fatal(err, r)
	}
	return truth
}

// readUntil reads partition 0 of a topic from an offset until the reader has come to another.
func readUntil(t *testing.T, brokers []string, b *broker, topic string, from, until int64) (position int64, largest int, s Stats) {
	t.Helper()
	f, err := New(config(t, b))
	if err != nil {
		t.Fatal(err)
	}
	client := kafkaio.New(kafkaio.Config{Brokers: brokers})
	defer client.Close()
	err = f.Run(t.Context(), func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		fetcher := &stopAt{Fetcher: client, offset: until, stop: stop}
		c := &committer{sources: make(map[int]*Source), committed: make(map[int]int64)}
		err := (&Topic{Feed: f, Fetcher: fetcher, Name: topic, Group: "g"}).partition(ctx, c, 0, from)
		position, largest = c.sources[0].Acked(), fetcher.largest
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return position, largest, f.Stats()
}

// onBrokers runs a story on an embedded broker, and on the Apache Kafka of FLOODGATE_KAFKA if there is one. Its topic takes
// batches of 100 MB.
func onBrokers(t *testing.T, story func(t *testing.T, brokers []string, topic string)) {
	t.Helper()
	run := func(t *testing.T, brokers []string) {
		t.Helper()
		topic := fmt.Sprint("foreign-", time.Now().UnixNano())
		client := kafkaio.New(kafkaio.Config{Brokers: brokers})
		defer client.Close()
		spec := kafkaio.TopicSpec{Name: topic, Partitions: 1, Settings: []kafkaio.Setting{{Name: "max.message.bytes", Value: "100000000"}}}
		if _, err := client.EnsureTopics(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		found, err := client.CheckTopics(t.Context(), kafkaio.ForeignSpec(topic))
		if err != nil || len(found) != 1 || found[0].Setting != "max.message.bytes" || found[0].Severity != kafkaio.Warning {
			t.Errorf("got %v and %v, want a warning of long batches", found, err)
		}
		story(t, brokers, topic)
	}
	t.Run("embedded", func(t *testing.T) {
		b, err := embedded.Start(embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		run(t, b.Addrs())
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		addrs := os.Getenv("FLOODGATE_KAFKA")
		if addrs == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		run(t, strings.Split(addrs, ","))
	})
}

// TestABatchOf200000LinesIsReadInPieces reads a batch that unpacks to 30 MB, with a restart in its middle. Each line counts
// once, and none is rejected.
func TestABatchOf200000LinesIsReadInPieces(t *testing.T) {
	testenv.Long(t)
	const lines = 200_000
	onBrokers(t, func(t *testing.T, brokers []string, topic string) {
		t.Helper()
		want := make(map[string]int)
		codecs := []kafka.Compression{kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}
		for _, codec := range codecs {
			for id, n := range shipBatch(t, brokers, topic, codec, lines) {
				want[id] += n
			}
		}
		b := newBroker()
		end := int64(len(codecs) * lines)
		middle, largest, first := readUntil(t, brokers, b, topic, 0, end/2+lines/3)
		if middle <= end/2 || middle >= end || middle%lines == 0 {
			t.Fatalf("got position %d, want one in the middle of a batch", middle)
		}
		position, _, second := readUntil(t, brokers, b, topic, middle, end)
		if position != end {
			t.Errorf("got position %d, want %d", position, end)
		}
		got := b.count(t)
		maps.DeleteFunc(got, func(id string, _ int) bool { return !strings.HasPrefix(id, "key:") })
		equal(t, got, want)
		if n := first.Lines + second.Lines; n < uint64(end) || len(first.Skipped)+len(second.Skipped)+len(b.rejects(t)) != 0 {
			t.Errorf("got %d lines, %v and %v skipped, %d rejects; want %d lines and no more", n, first.Skipped, second.Skipped, len(b.rejects(t)), end)
		}
		if largest > lines/2 {
			t.Errorf("got %d records at once, want pieces", largest)
		}
	})
}

// TestALongBatchOfAForeignTopicIsSkipped: what is before and behind is read, and one reject says how many are lost.
func TestALongBatchOfAForeignTopicIsSkipped(t *testing.T) {
	testenv.Long(t)
	onBrokers(t, func(t *testing.T, brokers []string, topic string) {
		t.Helper()
		client := kafkaio.New(kafkaio.Config{Brokers: brokers})
		defer client.Close()
		line := kafkaio.Message{Time: 1e18, Value: []byte(`{"time":1,"k":{"id":"a"}}`)}
		for _, batch := range [][]kafkaio.Message{{line}, slices.Repeat([]kafkaio.Message{{Time: 1e18, Value: make([]byte, 22<<20)}}, 3), {line}} {
			if _, err := client.Produce(t.Context(), topic, 0, batch...); err != nil {
				t.Fatal(err)
			}
		}
		b := newBroker()
		position, _, s := readUntil(t, brokers, b, topic, 0, 5)
		if position != 5 || b.count(t)["key:a"] != 2 || s.Skipped["too_large"] != 3 || len(s.Skipped) != 1 {
			t.Errorf("got position %d, %v, %v skipped; want 5, both lines, and three skipped", position, b.count(t), s.Skipped)
		}
		rejects := b.rejects(t)
		if len(rejects) != 1 || rejects[0].Offset != 1 || rejects[0].Reason != "records too_large" ||
			!strings.HasPrefix(rejects[0].Line, "offsets 1 to 3: too large: got a batch of 69") {
			t.Errorf("got rejects %+v, want one that names the offsets", rejects)
		}
	})
}

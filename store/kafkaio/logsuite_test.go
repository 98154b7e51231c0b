package kafkaio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/filelog"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// cluster is what the suite needs of a Kafka, real or in memory.
type cluster interface {
	kafkaio.Log
	Partitions(ctx context.Context, topic string) (int, error)
	EnsureTopics(ctx context.Context, specs ...kafkaio.TopicSpec) (created []string, err error)
	deleteTopic(t *testing.T, topic string)
}

// inMemory is the cluster that other packages' tests rest on.
type inMemory struct{ *kafkaiotest.Kafka }

func (c inMemory) deleteTopic(_ *testing.T, topic string) { c.Delete(topic) }

// onBrokers is a cluster of real brokers.
type onBrokers struct {
	*kafkaio.Client
	admin *kafka.Client
}

func (c onBrokers) deleteTopic(t *testing.T, topic string) {
	t.Helper()
	if _, err := c.admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}}); err != nil {
		t.Fatal(err)
	}
	for { // Apache Kafka deletes in the background
		if _, err := c.Partitions(t.Context(), topic); errors.Is(err, kafkaio.ErrNoTopic) {
			return
		}
	}
}

// TestLogInMemory, TestLogInFiles, TestLogEmbedded and TestLogApacheKafka run the same suite: what tests in memory show must hold in files, on
// the embedded broker and on Apache Kafka.
func TestLogInMemory(t *testing.T) {
	logSuite(t, func(t *testing.T, f func(*testing.T, cluster)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) { f(t, inMemory{kafkaiotest.New()}) })
	})
}

func TestLogEmbedded(t *testing.T) {
	t.Parallel()
	b, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	logSuite(t, realBrokers(b.Addrs()))
}

func TestLogApacheKafka(t *testing.T) {
	addrs := os.Getenv("FLOODGATE_KAFKA")
	if addrs == "" {
		t.Skip("FLOODGATE_KAFKA is not set: give host:port of an Apache Kafka to run the suite there too")
	}
	logSuite(t, realBrokers(strings.Split(addrs, ",")))
}

// onFiles is a cluster in the files of this host.
type onFiles struct {
	*filelog.Log
	dir string
}

func (c *onFiles) open(t *testing.T) {
	t.Helper()
	l, err := filelog.Open(c.dir, filelog.Options{SegmentBytes: 10_000}) // so that tests see several segments
	if err != nil {
		t.Fatal(err)
	}
	c.Log = l
	t.Cleanup(func() { _ = l.Close() })
}

// deleteTopic does what a person would do: no command deletes topics.
func (c *onFiles) deleteTopic(t *testing.T, topic string) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{topic + "-0", topic + "-1", "recovery-points"} {
		if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c.open(t)
}

func TestLogInFiles(t *testing.T) {
	t.Parallel()
	logSuite(t, func(t *testing.T, f func(*testing.T, cluster)) {
		t.Helper()
		c := &onFiles{dir: t.TempDir()}
		c.open(t)
		f(t, c)
	})
}

func realBrokers(addrs []string) func(*testing.T, func(*testing.T, cluster)) {
	return func(t *testing.T, f func(*testing.T, cluster)) {
		t.Helper()
		c := kafkaio.New(kafkaio.Config{Brokers: addrs})
		defer c.Close()
		transport := &kafka.Transport{}
		defer transport.CloseIdleConnections()
		f(t, onBrokers{c, &kafka.Client{Addr: kafka.TCP(addrs...), Transport: transport}})
	}
}

// logSuite tries a Log, and a Cursor and an Appender on it. With gives a test its cluster, of which it knows nothing. Each
// test has a topic of its own, of two partitions.
func logSuite(t *testing.T, with func(*testing.T, func(*testing.T, cluster))) {
	t.Helper()
	for _, part := range []struct {
		name string
		test func(t *testing.T, c cluster, topic string)
	}{
		{"what is produced is fetched", testRoundTrip},
		{"large values", testLargeValues},
		{"fetch from the middle", testFromTheMiddle},
		{"fetch less than a record", testLessThanARecord},
		{"long poll", testLongPoll},
		{"offsets out of range", testOutOfRange},
		{"no such topic", testNoTopic},
		{"too large a message", testTooLarge},
		{"a call ends with its context", testContext},
		{"many at once", testConcurrency},
		{"message times", testTimes},
		{"a cursor reads what an appender wrote", testCursor},
		{"a scan ends at its offset", testScan},
		{"a cursor beyond the end", testCursorBeyondTheEnd},
		{"a topic that comes late", testTopicComesLate},
		{"a topic that was made anew", testTopicMadeAnew},
		{"reading ahead", testRun},
	} {
		t.Run(part.name, func(t *testing.T) {
			with(t, func(t *testing.T, c cluster) {
				t.Helper()
				topic := fmt.Sprintf("suite-%08x", rand.Uint32())
				makeTopic(t, c, topic, 2)
				part.test(t, c, topic)
			})
		})
	}
}

func makeTopic(t *testing.T, c cluster, name string, partitions int) {
	t.Helper()
	if _, err := c.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: name, Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
}

// produce appends values, a batch each, and returns the offset of the first.
func produce(t *testing.T, c cluster, topic string, partition int, values ...string) int64 {
	t.Helper()
	first := int64(-1)
	for i, v := range values {
		base, err := c.Produce(t.Context(), topic, partition, kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte(v)})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = base
		}
	}
	return first
}

// fetchAll reads a partition from an offset to its end.
func fetchAll(t *testing.T, c cluster, topic string, partition int, from int64) []kafkaio.Record {
	t.Helper()
	_, end, err := c.Range(t.Context(), topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	var all []kafkaio.Record
	for from < end {
		b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Partition: partition, Offset: from, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b.Records...)
		from = b.Next
	}
	return all
}

func valuesOf(records []kafkaio.Record) []string {
	var s []string
	for _, r := range records {
		s = append(s, string(r.Value))
	}
	return s
}

// within fails the test unless f returns in time.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > d {
		t.Errorf("%s: got %v, want within %v", what, took, d)
	}
}

func testRoundTrip(t *testing.T, c cluster, topic string) {
	now := time.Now().UnixNano()
	msgs := []kafkaio.Message{
		{Time: now, Key: []byte("alice"), Value: []byte("one")},
		{Time: now - 1e9, Key: nil, Value: []byte("two")},
		{Time: now - 2e9, Key: []byte{}, Value: nil},
		{Time: now, Key: []byte{0, 0xff}, Value: []byte{}},
	}
	base, err := c.Produce(t.Context(), topic, 1, msgs...)
	if err != nil || base != 0 {
		t.Fatalf("got offset %d and %v, want 0", base, err)
	}
	if base, err = c.Produce(t.Context(), topic, 1, msgs[0]); err != nil || base != 4 {
		t.Fatalf("got offset %d and %v, want 4", base, err)
	}
	b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Partition: 1, MaxWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if b.Next != 5 || b.HighWater != 5 || b.LogStart != 0 || len(b.Records) != 5 || b.Skipped != nil {
		t.Fatalf("got %+v", b)
	}
	for i, m := range append(msgs, msgs[0]) {
		r := b.Records[i]
		if r.Offset != int64(i) || !bytes.Equal(r.Key, m.Key) || !bytes.Equal(r.Value, m.Value) ||
			(r.Key == nil) != (m.Key == nil) || (r.Value == nil) != (m.Value == nil) {
			t.Errorf("record %d: got %+v, want %+v", i, r, m)
		}
		if r.Time < m.Time || r.Time >= m.Time+1e6 {
			t.Errorf("record %d: got time %d, want %d rounded up to a millisecond", i, r.Time, m.Time)
		}
	}
	if b, err = c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Partition: 0}); err != nil || b.Next != 0 || len(b.Records) != 0 {
		t.Errorf("the other partition: got %+v and %v, want nothing", b, err)
	}
	if n, err := c.Partitions(t.Context(), topic); n != 2 || err != nil {
		t.Errorf("got %d partitions and %v, want 2", n, err)
	}
	if start, end, err := c.Range(t.Context(), topic, 1); start != 0 || end != 5 || err != nil {
		t.Errorf("got range %d to %d and %v, want 0 to 5", start, end, err)
	}
}

func testLargeValues(t *testing.T, c cluster, topic string) {
	value := make([]byte, 900_000)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	for range 4 { // over DefaultMaxBytes: several fetches
		if _, err := c.Produce(t.Context(), topic, 0, kafkaio.Message{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range fetchAll(t, c, topic, 0, 0) {
		if r.Offset != int64(i) || !bytes.Equal(r.Value, value) {
			t.Errorf("record %d: got offset %d and %d bytes that differ", i, r.Offset, len(r.Value))
		}
	}
}

func testFromTheMiddle(t *testing.T, c cluster, topic string) {
	for b := range 3 { // three batches of three
		msgs := make([]kafkaio.Message, 3)
		for i := range msgs {
			msgs[i].Value = fmt.Appendf(nil, "%d", 3*b+i)
		}
		if _, err := c.Produce(t.Context(), topic, 0, msgs...); err != nil {
			t.Fatal(err)
		}
	}
	for from := range 9 {
		records := fetchAll(t, c, topic, 0, int64(from))
		if len(records) != 9-from {
			t.Errorf("from %d: got %d records, want %d", from, len(records), 9-from)
		}
		for i, r := range records {
			if want := from + i; r.Offset != int64(want) || string(r.Value) != fmt.Sprint(want) {
				t.Errorf("from %d: got %q at %d, want %d", from, r.Value, r.Offset, want)
			}
		}
	}
}

func testLessThanARecord(t *testing.T, c cluster, topic string) {
	for i := range 3 {
		produce(t, c, topic, 0, strings.Repeat(fmt.Sprint(i), 10_000))
	}
	from := int64(0)
	for from < 3 {
		b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Offset: from, MaxBytes: 100, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if b.Next <= from || len(b.Records) == 0 {
			t.Fatalf("got next %d and %d records from offset %d, want progress", b.Next, len(b.Records), from)
		}
		from = b.Next
	}
}

func testLongPoll(t *testing.T, c cluster, topic string) {
	within(t, 2*time.Second, "a fetch that does not wait", func() {
		if b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic}); err != nil || len(b.Records) != 0 {
			t.Errorf("got %+v and %v, want nothing", b, err)
		}
	})
	start := time.Now()
	if b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, MaxWait: 300 * time.Millisecond}); err != nil || len(b.Records) != 0 {
		t.Errorf("got %+v and %v, want nothing", b, err)
	}
	if took := time.Since(start); took < 250*time.Millisecond || took > 3*time.Second {
		t.Errorf("got an empty answer after %v, want 300 ms", took)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	polling := make(chan struct{})
	var sent time.Time
	wg.Go(func() {
		<-polling
		_ = kafkaio.Sleep(t.Context(), 100*time.Millisecond) // so that the poll is on its way; if not, the test is only easier
		sent = time.Now()
		if _, err := c.Produce(t.Context(), topic, 0, kafkaio.Message{Value: []byte("wake")}); err != nil {
			t.Error(err)
		}
	})
	close(polling)
	b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, MaxWait: 20 * time.Second})
	if err != nil || len(b.Records) != 1 {
		t.Fatalf("got %+v and %v, want the record", b, err)
	}
	wg.Wait()
	if took := time.Since(sent); took > 5*time.Second {
		t.Errorf("got the record %v after it was sent, want at once", took)
	}
}

func testOutOfRange(t *testing.T, c cluster, topic string) {
	produce(t, c, topic, 0, "a", "b")
	for _, offset := range []int64{3, 1 << 40, -1, -2} {
		_, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Offset: offset, MaxWait: time.Second})
		var r *kafkaio.RangeError
		if !errors.Is(err, kafkaio.ErrOffsetOutOfRange) || !errors.As(err, &r) || r.Offset != offset || kafkaio.Temporary(err) {
			t.Errorf("offset %d: got %v, want ErrOffsetOutOfRange", offset, err)
		} else if offset >= 0 && (r.Start != 0 || r.End != 2) {
			t.Errorf("offset %d: got range %d to %d, want 0 to 2", offset, r.Start, r.End)
		}
	}
	if b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Offset: 2}); err != nil || b.Next != 2 {
		t.Errorf("the end itself: got %+v and %v, want nothing yet", b, err)
	}
}

func testNoTopic(t *testing.T, c cluster, topic string) {
	for name, f := range map[string]func() error{
		"fetch": func() error {
			_, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "no-" + topic})
			return err
		},
		"fetch, no partition": func() error {
			_, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Partition: 2})
			return err
		},
		"produce": func() error {
			_, err := c.Produce(t.Context(), "no-"+topic, 0, kafkaio.Message{})
			if got := kafkaio.OutcomeOf(err); got != kafkaio.Unsent && got != kafkaio.Refused {
				t.Errorf("produce: got outcome %v, want that it is not in the log", got)
			}
			return err
		},
		"range": func() error {
			_, _, err := c.Range(t.Context(), "no-"+topic, 0)
			return err
		},
		"range, no partition": func() error {
			_, _, err := c.Range(t.Context(), topic, 99)
			return err
		},
		"partitions": func() error {
			_, err := c.Partitions(t.Context(), "no-"+topic)
			return err
		},
	} {
		if err := f(); !errors.Is(err, kafkaio.ErrNoTopic) || kafkaio.Temporary(err) {
			t.Errorf("%s: got %v, want ErrNoTopic", name, err)
		}
	}
	if _, err := c.Partitions(t.Context(), "no-"+topic); !errors.Is(err, kafkaio.ErrNoTopic) {
		t.Errorf("got %v: something created the topic", err)
	}
}

func testTooLarge(t *testing.T, c cluster, topic string) {
	_, err := c.Produce(t.Context(), topic, 0, kafkaio.Message{Value: make([]byte, 3<<20)})
	if !errors.Is(err, kafkaio.ErrTooLarge) || kafkaio.OutcomeOf(err) != kafkaio.Refused || kafkaio.Temporary(err) {
		t.Errorf("got %v, outcome %v, want ErrTooLarge and refused", err, kafkaio.OutcomeOf(err))
	}
	if base := produce(t, c, topic, 0, "small"); base != 0 {
		t.Errorf("got offset %d after a refusal, want 0", base)
	}
}

func testContext(t *testing.T, c cluster, topic string) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	within(t, 3*time.Second, "fetch with a deadline", func() {
		_, err := c.Fetch(ctx, kafkaio.FetchRequest{Topic: topic, MaxWait: time.Minute})
		if !errors.Is(err, context.DeadlineExceeded) || !kafkaio.Temporary(err) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
	})
	ctx, cancel = context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = kafkaio.Sleep(t.Context(), 50*time.Millisecond); cancel() })
	within(t, 3*time.Second, "fetch that is canceled", func() {
		_, err := c.Fetch(ctx, kafkaio.FetchRequest{Topic: topic, MaxWait: time.Minute})
		if !errors.Is(err, context.Canceled) || kafkaio.Temporary(err) {
			t.Errorf("got %v, want Canceled", err)
		}
	})
	wg.Wait()
	_, err := c.Produce(ctx, topic, 0, kafkaio.Message{})
	if !errors.Is(err, context.Canceled) || kafkaio.OutcomeOf(err) != kafkaio.Unsent {
		t.Errorf("produce, canceled before: got %v, outcome %v, want Canceled and unsent", err, kafkaio.OutcomeOf(err))
	}
	if base := produce(t, c, topic, 0, "after"); base != 0 {
		t.Errorf("got offset %d, want 0: the canceled one was not sent", base)
	}
}

func testConcurrency(t *testing.T, c cluster, topic string) {
	const producers, each = 8, 25
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				if _, err := c.Produce(t.Context(), topic, p%2, kafkaio.Message{Value: fmt.Appendf(nil, "%d.%d", p, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var got [2][]string
	for p := range got {
		wg.Go(func() {
			for from := int64(0); from < producers*each/2 && !t.Failed(); {
				b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Partition: p, Offset: from, MaxWait: time.Second})
				if err != nil {
					t.Error(err)
					return
				}
				got[p] = append(got[p], valuesOf(b.Records)...)
				from = b.Next
			}
		})
	}
	wg.Wait()
	for p, values := range got {
		slices.Sort(values)
		if n := len(slices.Compact(values)); n != producers*each/2 {
			t.Errorf("partition %d: got %d different values, want %d", p, n, producers*each/2)
		}
	}
}

// testTimes is why requests has message.timestamp.after.max.ms: a server whose clock runs ahead is told so.
func testTimes(t *testing.T, c cluster, topic string) {
	spec := kafkaio.Specs(schemas.TopicNames{Requests: topic + ".requests"}, 1)[0]
	if _, err := c.EnsureTopics(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	_, err := c.Produce(t.Context(), spec.Name, 0, kafkaio.Message{Time: now.UnixNano()}, kafkaio.Message{Time: now.Add(time.Hour).UnixNano()})
	if !errors.Is(err, kafkaio.ErrTimestamp) || kafkaio.OutcomeOf(err) != kafkaio.Refused || kafkaio.Temporary(err) {
		t.Errorf("an hour ahead: got %v, outcome %v, want ErrTimestamp and refused", err, kafkaio.OutcomeOf(err))
	}
	if base, err := c.Produce(t.Context(), spec.Name, 0, kafkaio.Message{Time: now.Add(-time.Hour).UnixNano()}); err != nil || base != 0 {
		t.Errorf("an hour behind: got offset %d and %v, want 0: backlogs are welcome, and nothing of the refused one is there", base, err)
	}
}

// messages returns one message for each value.
func messages(values ...string) []kafkaio.Message {
	var msgs []kafkaio.Message
	for _, v := range values {
		msgs = append(msgs, kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte(v)})
	}
	return msgs
}

func testCursor(t *testing.T, c cluster, topic string) {
	a := kafkaio.NewAppender(c, kafkaio.AppenderConfig{Topic: topic, Partition: 1})
	if base, err := a.Append(t.Context()); base != -1 || err != nil {
		t.Errorf("no messages: got offset %d and %v, want -1", base, err)
	}
	for i, values := range [][]string{{"a", "b"}, {"c"}, {"d", "e", "f"}} {
		if base, err := a.Append(t.Context(), messages(values...)...); base != []int64{0, 2, 3}[i] || err != nil {
			t.Fatalf("got offset %d and %v, want %d", base, err, []int64{0, 2, 3}[i])
		}
	}
	cursor := kafkaio.NewCursor(c, kafkaio.CursorConfig{Topic: topic, Partition: 1, Offset: kafkaio.Earliest, MaxWait: 50 * time.Millisecond})
	var got []string
	for cursor.Offset() < 6 {
		b, err := cursor.Next(t.Context())
		if err != nil || b.Next != cursor.Offset() || len(b.Skipped) != 0 {
			t.Fatalf("got %+v and %v, with the cursor at %d", b, err, cursor.Offset())
		}
		got = append(got, valuesOf(b.Records)...)
	}
	if strings.Join(got, "") != "abcdef" {
		t.Errorf("got %v, want a to f", got)
	}
	if b, err := cursor.Next(t.Context()); err != nil || len(b.Records) != 0 || b.Next != 6 || b.HighWater != 6 {
		t.Errorf("at the end: got %+v and %v, want an empty batch", b, err)
	}
	cursor.MoveTo(4)
	if b, err := cursor.Next(t.Context()); err != nil || len(b.Records) == 0 || string(b.Records[0].Value) != "e" {
		t.Errorf("from offset 4: got %+v and %v, want e", b, err)
	}
	if start, end, err := cursor.Range(t.Context()); start != 0 || end != 6 || err != nil {
		t.Errorf("got range %d to %d and %v, want 0 to 6", start, end, err)
	}
}

func testScan(t *testing.T, c cluster, topic string) {
	if _, err := c.Produce(t.Context(), topic, 0, messages("a", "b", "c", "d", "e")...); err != nil { // one batch
		t.Fatal(err)
	}
	cursor := kafkaio.NewCursor(c, kafkaio.CursorConfig{Topic: topic, MaxWait: 50 * time.Millisecond})
	scan := func(end int64) (got string, err error) {
		err = cursor.Scan(t.Context(), end, func(b *kafkaio.Batch) error {
			got += strings.Join(valuesOf(b.Records), "")
			return nil
		})
		return got, err
	}
	for _, step := range []struct {
		end  int64
		want string
		err  error
	}{{3, "abc", nil}, {3, "", nil}, {5, "de", nil}, {6, "", kafkaio.ErrTruncated}} {
		if got, err := scan(step.end); got != step.want || !errors.Is(err, step.err) || cursor.Offset() != min(step.end, 5) {
			t.Errorf("to %d: got %q and %v, at %d; want %q and %v", step.end, got, err, cursor.Offset(), step.want, step.err)
		}
	}
	cursor.MoveTo(0)
	errStop := errors.New("enough")
	if err := cursor.Scan(t.Context(), 5, func(*kafkaio.Batch) error { return errStop }); !errors.Is(err, errStop) {
		t.Errorf("got %v, want what the function returned", err)
	}
}

func testCursorBeyondTheEnd(t *testing.T, c cluster, topic string) {
	produce(t, c, topic, 0, "a", "b")
	for name, retry := range map[string]kafkaio.Retry{"nil": nil, "always": kafkaio.Always, "never": kafkaio.Never} {
		cursor := kafkaio.NewCursor(c, kafkaio.CursorConfig{Topic: topic, Offset: 3, Retry: retry})
		_, err := cursor.Next(t.Context())
		r, ok := errors.AsType[*kafkaio.RangeError](err)
		if !errors.Is(err, kafkaio.ErrTruncated) || !ok || r.Offset != 3 || r.End != 2 || cursor.Offset() != 3 {
			t.Errorf("retry %s: got %v, want ErrTruncated with the range", name, err)
		}
	}
}

func testTopicComesLate(t *testing.T, c cluster, topic string) {
	late := topic + ".late"
	cursor := kafkaio.NewCursor(c, kafkaio.CursorConfig{Topic: late, Retry: kafkaio.Never})
	if _, err := cursor.Next(t.Context()); !errors.Is(err, kafkaio.ErrNoTopic) {
		t.Errorf("never: got %v, want ErrNoTopic", err)
	}
	cursor = kafkaio.NewCursor(c, kafkaio.CursorConfig{Topic: late})
	if _, err := cursor.Next(t.Context()); !errors.Is(err, kafkaio.ErrNoTopic) {
		t.Errorf("nil: got %v, want ErrNoTopic: it is not temporary", err)
	}
	var failures int
	created := func(err error) bool {
		if failures++; failures == 2 {
			makeTopic(t, c, late, 1)
		}
		return kafkaio.Always(err)
	}
	a := kafkaio.NewAppender(c, kafkaio.AppenderConfig{Topic: late, Retry: created})
	if base, err := a.Append(t.Context(), messages("a")...); base != 0 || err != nil || failures < 2 {
		t.Fatalf("got offset %d and %v after %d failures, want 0 once the topic is there", base, err, failures)
	}
	cursor = kafkaio.NewCursor(c, kafkaio.CursorConfig{Topic: late, Retry: kafkaio.Always})
	if b, err := cursor.Next(t.Context()); err != nil || len(b.Records) != 1 {
		t.Errorf("got %+v and %v, want the record", b, err)
	}
}

func testTopicMadeAnew(t *testing.T, c cluster, topic string) {
	if _, slow := c.(onBrokers); slow {
		testenv.Long(t) // brokers take their time to delete a topic
	}
	makeTopic(t, c, topic, 1)
	produce(t, c, topic, 0, "a", "b", "c")
	wasAway := func(err error) bool {
		if errors.Is(err, kafkaio.ErrNoTopic) {
			makeTopic(t, c, topic, 1)
			produce(t, c, topic, 0, "x", "y", "z", "u")
		}
		return kafkaio.Always(err)
	}
	cursor := kafkaio.NewCursor(c, kafkaio.CursorConfig{Topic: topic, Retry: wasAway})
	if err := cursor.Scan(t.Context(), 3, func(*kafkaio.Batch) error { return nil }); err != nil {
		t.Fatal(err)
	}
	c.deleteTopic(t, topic)
	b, err := cursor.Next(t.Context())
	if !errors.Is(err, kafkaio.ErrTruncated) || cursor.Offset() != 3 {
		t.Errorf("got %+v and %v, at %d, want ErrTruncated", b, err, cursor.Offset())
	}
	b, err = cursor.Next(t.Context())
	if err != nil || len(b.Records) != 1 || string(b.Records[0].Value) != "u" {
		t.Errorf("the next time: got %+v and %v, want to go on in the topic that exists", b, err)
	}
}

func testRun(t *testing.T, c cluster, topic string) {
	produce(t, c, topic, 0, "a", "b", "c")
	ctx, stop := context.WithCancel(t.Context())
	cursor := kafkaio.NewCursor(c, kafkaio.CursorConfig{Topic: topic, MaxWait: 20 * time.Millisecond, MaxBytes: 1})
	batches := make(chan kafkaio.Batch, 2)
	var running sync.WaitGroup
	running.Go(func() {
		if err := cursor.Run(ctx, batches); err != nil {
			t.Errorf("got %v from Run, want nil: it was stopped", err)
		}
	})
	var got []string
	for len(got) < 4 {
		b := <-batches
		if len(b.Records) == 0 {
			t.Errorf("got an empty batch %+v", b)
		}
		if got = append(got, valuesOf(b.Records)...); len(got) == 3 {
			produce(t, c, topic, 0, "d")
		}
	}
	if strings.Join(got, "") != "abcd" {
		t.Errorf("got %v, want a to d", got)
	}
	stop()
	running.Wait()
	for b := range batches {
		t.Errorf("got another batch %+v", b)
	}
	if err := cursor.Err(); err != nil {
		t.Errorf("got %v from Err, want nil", err)
	}
}

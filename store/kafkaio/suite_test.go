package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	kafka "github.com/segmentio/kafka-go"
)

// TestEmbedded and TestApacheKafka run the same suite: what holds on the embedded broker must hold on Apache Kafka.
func TestEmbedded(t *testing.T) {
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
	run("what is produced is fetched", testRoundTrip)
	run("large values", testLargeValues)
	run("fetch from the middle", testFromTheMiddle)
	run("fetch less than a record", testLessThanARecord)
	run("all codecs", testAllCodecs)
	run("long poll", testLongPoll)
	run("offsets out of range", testOutOfRange)
	run("no such topic", testNoTopic)
	run("too large a message", testTooLarge)
	run("a call ends with its context", testContext)
	run("many at once", testConcurrency)
	run("topics", testTopics)
	run("group", testGroup)
	run("group of two", testTwoMembers)
	if apache {
		run("message times", testTimes)
		run("zombie", testZombie) // waits for Apache Kafka's shortest session; TestCommitIsRefusedToAZombie is quicker
	}
}

func testRoundTrip(t *testing.T, c *Client, topic string) {
	now := time.Now().UnixNano()
	msgs := []Message{
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
	b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, Partition: 1, MaxWait: time.Second})
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
	if b, err = c.Fetch(t.Context(), FetchRequest{Topic: topic, Partition: 0}); err != nil || b.Next != 0 || len(b.Records) != 0 {
		t.Errorf("the other partition: got %+v and %v, want nothing", b, err)
	}
	if n, err := c.Partitions(t.Context(), topic); n != 2 || err != nil {
		t.Errorf("got %d partitions and %v, want 2", n, err)
	}
	if start, end, err := c.Range(t.Context(), topic, 1); start != 0 || end != 5 || err != nil {
		t.Errorf("got range %d to %d and %v, want 0 to 5", start, end, err)
	}
}

func testLargeValues(t *testing.T, c *Client, topic string) {
	value := make([]byte, 900_000)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	for range 4 { // over DefaultMaxBytes: several fetches
		if _, err := c.Produce(t.Context(), topic, 0, Message{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range fetchAll(t, c, topic, 0, 0) {
		if r.Offset != int64(i) || !bytes.Equal(r.Value, value) {
			t.Errorf("record %d: got offset %d and %d bytes that differ", i, r.Offset, len(r.Value))
		}
	}
}

func testFromTheMiddle(t *testing.T, c *Client, topic string) {
	for b := range 3 { // three batches of three
		msgs := make([]Message, 3)
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

func testLessThanARecord(t *testing.T, c *Client, topic string) {
	for i := range 3 {
		produce(t, c, topic, 0, strings.Repeat(fmt.Sprint(i), 10_000))
	}
	from := int64(0)
	for from < 3 {
		b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, Offset: from, MaxBytes: 100, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if b.Next <= from || len(b.Records) == 0 {
			t.Fatalf("got next %d and %d records from offset %d, want progress", b.Next, len(b.Records), from)
		}
		from = b.Next
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

func testLongPoll(t *testing.T, c *Client, topic string) {
	within(t, 2*time.Second, "a fetch that does not wait", func() {
		if b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic}); err != nil || len(b.Records) != 0 {
			t.Errorf("got %+v and %v, want nothing", b, err)
		}
	})
	start := time.Now()
	if b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, MaxWait: 300 * time.Millisecond}); err != nil || len(b.Records) != 0 {
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
		_ = pause(t.Context(), 100*time.Millisecond) // so that the poll is on its way; if not, the test is only easier
		sent = time.Now()
		if _, err := c.Produce(t.Context(), topic, 0, Message{Value: []byte("wake")}); err != nil {
			t.Error(err)
		}
	})
	close(polling)
	b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, MaxWait: 20 * time.Second})
	if err != nil || len(b.Records) != 1 {
		t.Fatalf("got %+v and %v, want the record", b, err)
	}
	wg.Wait()
	if took := time.Since(sent); took > 5*time.Second {
		t.Errorf("got the record %v after it was sent, want at once", took)
	}
}

func testOutOfRange(t *testing.T, c *Client, topic string) {
	produce(t, c, topic, 0, "a", "b")
	for _, offset := range []int64{3, 1 << 40, -1, -2} {
		_, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, Offset: offset, MaxWait: time.Second})
		var r *RangeError
		if !errors.Is(err, ErrOffsetOutOfRange) || !errors.As(err, &r) || r.Offset != offset || Temporary(err) {
			t.Errorf("offset %d: got %v, want ErrOffsetOutOfRange", offset, err)
		} else if offset >= 0 && (r.Start != 0 || r.End != 2) {
			t.Errorf("offset %d: got range %d to %d, want 0 to 2", offset, r.Start, r.End)
		}
	}
	if b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, Offset: 2}); err != nil || b.Next != 2 {
		t.Errorf("the end itself: got %+v and %v, want nothing yet", b, err)
	}
}

func testNoTopic(t *testing.T, c *Client, topic string) {
	for name, f := range map[string]func() error{
		"fetch": func() error {
			_, err := c.Fetch(t.Context(), FetchRequest{Topic: "no-" + topic})
			return err
		},
		"fetch, no partition": func() error {
			_, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, Partition: 2})
			return err
		},
		"produce": func() error {
			_, err := c.Produce(t.Context(), "no-"+topic, 0, Message{})
			if got := OutcomeOf(err); got != Unsent && got != Refused {
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
		if err := f(); !errors.Is(err, ErrNoTopic) || Temporary(err) {
			t.Errorf("%s: got %v, want ErrNoTopic", name, err)
		}
	}
	if _, err := c.Partitions(t.Context(), "no-"+topic); !errors.Is(err, ErrNoTopic) {
		t.Errorf("got %v: something created the topic", err)
	}
}

func testTooLarge(t *testing.T, c *Client, topic string) {
	_, err := c.Produce(t.Context(), topic, 0, Message{Value: make([]byte, 3<<20)})
	if !errors.Is(err, ErrTooLarge) || OutcomeOf(err) != Refused || Temporary(err) {
		t.Errorf("got %v, outcome %v, want ErrTooLarge and refused", err, OutcomeOf(err))
	}
	if base := produce(t, c, topic, 0, "small"); base != 0 {
		t.Errorf("got offset %d after a refusal, want 0", base)
	}
}

func testContext(t *testing.T, c *Client, topic string) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	within(t, 3*time.Second, "fetch with a deadline", func() {
		_, err := c.Fetch(ctx, FetchRequest{Topic: topic, MaxWait: time.Minute})
		if !errors.Is(err, context.DeadlineExceeded) || !Temporary(err) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
	})
	ctx, cancel = context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = pause(t.Context(), 50*time.Millisecond); cancel() })
	within(t, 3*time.Second, "fetch that is canceled", func() {
		_, err := c.Fetch(ctx, FetchRequest{Topic: topic, MaxWait: time.Minute})
		if !errors.Is(err, context.Canceled) || Temporary(err) {
			t.Errorf("got %v, want Canceled", err)
		}
	})
	wg.Wait()
	_, err := c.Produce(ctx, topic, 0, Message{})
	if !errors.Is(err, context.Canceled) || OutcomeOf(err) != Unsent {
		t.Errorf("produce, canceled before: got %v, outcome %v, want Canceled and unsent", err, OutcomeOf(err))
	}
	if base := produce(t, c, topic, 0, "after"); base != 0 {
		t.Errorf("got offset %d, want 0: the canceled one was not sent", base)
	}
}

func testConcurrency(t *testing.T, c *Client, topic string) {
	const producers, each = 8, 25
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				if _, err := c.Produce(t.Context(), topic, p%2, Message{Value: fmt.Appendf(nil, "%d.%d", p, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var got [2][]string
	for p := range got {
		wg.Go(func() {
			for from := int64(0); from < producers*each/2 && !t.Failed(); {
				b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, Partition: p, Offset: from, MaxWait: time.Second})
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

func testTopics(t *testing.T, c *Client, topic string) {
	names := TopicNames{topic + ".requests", topic + ".decisions", topic + ".state", topic + ".rejects", topic + ".control"}
	specs := Specs(names, 3)
	found, err := c.CheckTopics(t.Context(), specs...)
	if err != nil || len(found) != 5 || found[0].Setting != "topic" || found[0].Severity != Error {
		t.Fatalf("before: got %v and %v, want five missing topics", found, err)
	}
	created, err := c.EnsureTopics(t.Context(), specs...)
	if err != nil || !slices.Equal(created, []string{names.Requests, names.Decisions, names.State, names.Rejects, names.Control}) {
		t.Fatalf("got %v and %v, want all five", created, err)
	}
	if created, err = c.EnsureTopics(t.Context(), specs...); err != nil || created != nil {
		t.Errorf("again: got %v and %v, want none", created, err)
	}
	if found, err = c.CheckTopics(t.Context(), specs...); err != nil || len(found) != 0 {
		t.Errorf("after: got %v and %v, want nothing to find", found, err)
	}
	for name, want := range map[string]int{names.Requests: 3, names.State: 3, names.Control: 1} {
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

// testTimes is why requests has message.timestamp.after.max.ms: a server whose clock runs ahead is told so.
func testTimes(t *testing.T, c *Client, topic string) {
	spec := Specs(TopicNames{Requests: topic + ".requests"}, 1)[0]
	if _, err := c.EnsureTopics(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	_, err := c.Produce(t.Context(), spec.Name, 0, Message{Time: now.UnixNano()}, Message{Time: now.Add(time.Hour).UnixNano()})
	if !errors.Is(err, ErrTimestamp) || OutcomeOf(err) != Refused || Temporary(err) {
		t.Errorf("an hour ahead: got %v, outcome %v, want ErrTimestamp and refused", err, OutcomeOf(err))
	}
	if base, err := c.Produce(t.Context(), spec.Name, 0, Message{Time: now.Add(-time.Hour).UnixNano()}); err != nil || base != 0 {
		t.Errorf("an hour behind: got offset %d and %v, want 0: backlogs are welcome, and nothing of the refused one is there", base, err)
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

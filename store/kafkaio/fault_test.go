package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBrokerRestart stops the broker between calls and starts it again on the same port with the same data. All pooled
// connections are stale then; neither fetch nor produce may notice, and nothing is there twice.
func TestBrokerRestart(t *testing.T) {
	options := embedded.Options{Dir: t.TempDir(), Listen: testenv.FreeAddress(t)}
	b := startBroker(t, options)
	c := startClient(t, Config{Brokers: b.Addrs()})
	makeTopic(t, c, "t", 1)
	var want []string
	for round := range 5 {
		want = append(want, fmt.Sprint(round))
		produce(t, c, "t", 0, want[round])
		if got := valuesOf(fetchAll(t, c, "t", 0, 0)); !slices.Equal(got, want) {
			t.Fatalf("round %d: got %v, want %v", round, got, want)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = startBroker(t, options)
	}
}

// TestBrokerAway tells what is known of a produce that met no broker.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	addr := testenv.FreeAddress(t)
	c := startClient(t, Config{Brokers: []string{addr}, Timeout: 300 * time.Millisecond})
	for what, f := range map[string]func() error{
		"produce": func() error { _, err := c.Produce(t.Context(), "t", 0, Message{}); return err },
		"fetch":   func() error { _, err := c.Fetch(t.Context(), FetchRequest{Topic: "t"}); return err },
		"range":   func() error { _, _, err := c.Range(t.Context(), "t", 0); return err },
		"topics":  func() error { _, err := c.EnsureTopics(t.Context(), TopicSpec{Name: "t", Partitions: 1}); return err },
		"check":   func() error { _, err := c.CheckTopics(t.Context(), TopicSpec{Name: "t", Partitions: 1}); return err },
	} {
		within(t, 3*time.Second, what, func() {
			err := f()
			if !Temporary(err) || errors.Is(err, ErrNoTopic) {
				t.Errorf("%s: got %v, want a temporary error, and not that the topic is missing", what, err)
			}
			if what == "produce" && OutcomeOf(err) != Unsent {
				t.Errorf("got outcome %v, want unsent", OutcomeOf(err))
			}
		})
	}
	// Now it comes.
	b := startBroker(t, embedded.Options{Listen: addr})
	c = startClient(t, Config{Brokers: []string{addr}})
	if err := c.CheckBrokers(t.Context()); err != nil {
		t.Error(err)
	}
	makeTopic(t, c, "t", 1)
	produce(t, c, "t", 0, "x")
	_ = b
}

// TestBrokerComesBack uses one client throughout: what it learned while the broker was away must not stick.
func TestBrokerComesBack(t *testing.T) {
	t.Parallel()
	options := embedded.Options{Dir: t.TempDir(), Listen: testenv.FreeAddress(t)}
	b := startBroker(t, options)
	c := startClient(t, Config{Brokers: b.Addrs(), Timeout: time.Second})
	makeTopic(t, c, "t", 1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Produce(t.Context(), "t", 0, Message{}); OutcomeOf(err) != Unsent || !Temporary(err) {
			t.Fatalf("away: got %v, outcome %v, want unsent", err, OutcomeOf(err))
		}
	}
	startBroker(t, options)
	within(t, 2*time.Second, "the first produce after", func() {
		for {
			_, err := c.Produce(t.Context(), "t", 0, Message{})
			if err == nil {
				break
			}
			if OutcomeOf(err) != Unsent || !Temporary(err) {
				t.Fatal(err)
			}
		}
	})
	if n := len(fetchAll(t, c, "t", 0, 0)); n != 1 {
		t.Errorf("got %d records, want the one that was acknowledged", n)
	}
}

// TestBlackHole lets every connection fall silent, in the middle of things. Calls end with their context, and what was
// written is unknown.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	var w weather
	_, c := withTopic(t, 1, Config{Dial: w.dial, Timeout: 20 * time.Second})
	produce(t, c, "t", 0, "before")
	w.hole.Store(true)
	for what, f := range map[string]func(ctx context.Context) error{
		"produce": func(ctx context.Context) error {
			_, err := c.Produce(ctx, "t", 0, Message{Value: []byte("lost?")})
			if OutcomeOf(err) == Acked || OutcomeOf(err) == Refused {
				t.Errorf("got outcome %v, want unknown or unsent", OutcomeOf(err))
			}
			return err
		},
		"fetch": func(ctx context.Context) error {
			_, err := c.Fetch(ctx, FetchRequest{Topic: "t", MaxWait: time.Second})
			return err
		},
		"range": func(ctx context.Context) error { _, _, err := c.Range(ctx, "t", 0); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		within(t, 2*time.Second, what, func() {
			if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want DeadlineExceeded", what, err)
			}
		})
		cancel()
	}
	// The weather clears. What the pool waits for was swallowed, and must not be waited for.
	w.hole.Store(false)
	within(t, time.Second, "afterwards", func() {
		if got, err := c.Fetch(t.Context(), FetchRequest{Topic: "t"}); err != nil || string(got.Records[0].Value) != "before" {
			t.Errorf("got %+v and %v, want what was there before", got, err)
		}
	})
	w.hole.Store(true)
	// Canceled instead, from outside: the goroutine of the connection ends too, and goleak would say if not.
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = Sleep(t.Context(), 50*time.Millisecond); cancel() })
	within(t, 2*time.Second, "canceled", func() {
		if _, err := c.Fetch(ctx, FetchRequest{Topic: "t", MaxWait: time.Second}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	})
	wg.Wait()
}

// TestCloseEndsCalls closes the client under calls that wait for a broker.
func TestCloseEndsCalls(t *testing.T) {
	b := startBroker(t, embedded.Options{})
	c := New(Config{Brokers: b.Addrs()})
	makeTopic(t, c, "t", 4)
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			_, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", Partition: p, MaxWait: time.Minute})
			if !errors.Is(err, ErrClosed) || Temporary(err) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
	_ = Sleep(t.Context(), 50*time.Millisecond)
	within(t, 2*time.Second, "close", c.Close)
	wg.Wait()
	c.Close() // again
	_, err := c.Produce(t.Context(), "t", 0, Message{})
	if !errors.Is(err, ErrClosed) || OutcomeOf(err) != Unsent {
		t.Errorf("after close: got %v, outcome %v, want ErrClosed and unsent", err, OutcomeOf(err))
	}
	if err := c.CheckBrokers(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// TestProduceFaults gives each outcome a broker that answers so.
func TestProduceFaults(t *testing.T) {
	b, c := withTopic(t, 1, Config{})
	for _, f := range []struct {
		fault    *kerr.Error
		outcome  Outcome
		wantErr  error
		appended bool
	}{
		{kerr.RequestTimedOut, Unknown, kafka.RequestTimedOut, true},
		{kerr.NotEnoughReplicasAfterAppend, Unknown, kafka.NotEnoughReplicasAfterAppend, true},
		{kerr.NotEnoughReplicas, Refused, kafka.NotEnoughReplicas, false},
		{kerr.TopicAuthorizationFailed, Refused, ErrUnauthorized, false},
		{kerr.InvalidTimestamp, Refused, ErrTimestamp, false},
		{kerr.MessageTooLarge, Refused, ErrTooLarge, false},
		{kerr.UnknownServerError, Unknown, kafka.Unknown, false},
		{kerr.NotLeaderForPartition, Unknown, kafka.NotLeaderForPartition, false},
	} {
		start, end, err := c.Range(t.Context(), "t", 0)
		if err != nil {
			t.Fatal(start, err)
		}
		h := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: f.fault, Count: -1})
		_, err = c.Produce(t.Context(), "t", 0, Message{})
		h.Remove()
		if !errors.Is(err, f.wantErr) || OutcomeOf(err) != f.outcome {
			t.Errorf("%v: got %v, outcome %v, want %v", f.fault, err, OutcomeOf(err), f.outcome)
		}
		_, now, err := c.Range(t.Context(), "t", 0)
		if err != nil || (now > end) != f.appended {
			t.Errorf("%v: got end %d, was %d, %v", f.fault, now, end, err)
		}
	}
}

// TestProduceConnectionCut drops the connection after the append and before the answer.
func TestProduceConnectionCut(t *testing.T) {
	b, c := withTopic(t, 1, Config{})
	b.Cluster().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("cut"), true // kfake closes the connection on an error
	})
	_, err := c.Produce(t.Context(), "t", 0, Message{Value: []byte("once?")})
	if OutcomeOf(err) != Unknown || !Temporary(err) {
		t.Errorf("got %v, outcome %v, want unknown", err, OutcomeOf(err))
	}
	if base := produce(t, c, "t", 0, "next"); base != 0 {
		t.Errorf("got offset %d, want 0: an unknown one is not repeated", base)
	}
}

// TestFetchFaults lasts through what passes, and says what does not.
func TestFetchFaults(t *testing.T) {
	t.Parallel()
	b, c := withTopic(t, 1, Config{})
	produce(t, c, "t", 0, "a", "b")
	for _, f := range []struct {
		fault *kerr.Error
		times int
		want  error
	}{
		{kerr.NotLeaderForPartition, 2, nil},
		{kerr.LeaderNotAvailable, 2, nil},
		{kerr.UnknownTopicOrPartition, 1, nil},
		{kerr.NotLeaderForPartition, 3, kafka.NotLeaderForPartition},
		{kerr.UnknownTopicOrPartition, 3, ErrNoTopic},
		{kerr.TopicAuthorizationFailed, 1, ErrUnauthorized},
		{kerr.OffsetOutOfRange, 1, nil}, // a follower's mistake: the range says otherwise
		{kerr.OffsetOutOfRange, 3, kafka.OffsetOutOfRange},
	} {
		h := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: f.fault, Count: f.times})
		got, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", MaxWait: time.Second})
		h.Remove()
		if !errors.Is(err, f.want) || err == nil && len(got.Records) != 2 {
			t.Errorf("%v, %d times: got %d records and %v, want %v", f.fault, f.times, len(got.Records), err, f.want)
		}
		if errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("%v: got ErrOffsetOutOfRange for an offset within the range", f.fault)
		}
	}
}

// TestLogStartMoves is retention overtaking a reader.
func TestLogStartMoves(t *testing.T) {
	b, c := withTopic(t, 1, Config{})
	produce(t, c, "t", 0, "a", "b", "c", "d")
	if err := b.Cluster().DeleteRecords("t", 0, 3); err != nil {
		t.Fatal(err)
	}
	_, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", Offset: 1})
	var r *RangeError
	if !errors.As(err, &r) || r.Start != 3 || r.End != 4 || r.Offset != 1 {
		t.Fatalf("got %v, want a RangeError of 3 to 4", err)
	}
	if got, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", Offset: r.Start}); err != nil || got.LogStart != 3 || len(got.Records) != 1 {
		t.Errorf("got %+v and %v, want what is left", got, err)
	}
}

// TestLeaderMoves sends a partition around three brokers while it is written and read.
func TestLeaderMoves(t *testing.T) {
	b := startBroker(t, embedded.Options{Nodes: 3})
	c := startClient(t, Config{Brokers: b.Addrs()[:1]})
	makeTopic(t, c, "t", 1)
	var want []string
	for i := range 9 {
		if err := b.Cluster().MoveTopicPartition("t", 0, int32(i%3)); err != nil {
			t.Fatal(err)
		}
		if got := valuesOf(fetchAll(t, c, "t", 0, 0)); !slices.Equal(got, want) {
			t.Fatalf("step %d: got %v, want %v", i, got, want)
		}
		if err := b.Cluster().MoveTopicPartition("t", 0, int32((i+1)%3)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Produce(t.Context(), "t", 0, Message{Value: fmt.Append(nil, i)})
		if OutcomeOf(err) == Unknown && errors.Is(err, kafka.NotLeaderForPartition) {
			// kfake does not say -1 where it appended nothing. The next try finds the new leader.
			_, err = c.Produce(t.Context(), "t", 0, Message{Value: fmt.Append(nil, i)})
		}
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprint(i))
	}
}

// TestFlippedBitsInFlight flips one bit of what arrives, anywhere, many times. What is delivered is always the truth.
func TestFlippedBitsInFlight(t *testing.T) {
	t.Parallel()
	var w weather
	b, c := withTopic(t, 1, Config{Dial: w.dial, Timeout: time.Second})
	good := startClient(t, Config{Brokers: b.Addrs()})
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("value %d of someone called alice", i))
	}
	produce(t, good, "t", 0, want...)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	failed := 0
	for range 300 {
		at := r.Int64N(3000) + 1
		w.flip.Store(at)
		got, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", MaxWait: 10 * time.Millisecond})
		w.flip.Store(0)
		if err != nil {
			failed++
			continue
		}
		if values := valuesOf(got.Records); !slices.Equal(values, want[:len(values)]) || got.Next != int64(len(values)) || len(got.Skipped) > 0 {
			t.Fatalf("byte %d: got %q, next %d, skipped %v", at, values, got.Next, got.Skipped)
		}
	}
	if failed > 30 { // a single flip is mended by asking again; what is left hit a connection's beginning
		t.Errorf("got %d of 300 fetches failed, want nearly none", failed)
	}
}

// TestCorruptOnDisk is the same from the broker each time: that is said, with where to go on.
func TestCorruptOnDisk(t *testing.T) {
	batch := three()
	batch[len(batch)-1] ^= 1
	b := startBroker(t, embedded.Options{Cluster: []kfake.Opt{kfake.SyntheticFetch(kfake.SyntheticBatch{Batch: batch})}})
	c := startClient(t, Config{Brokers: b.Addrs()})
	makeTopic(t, c, "t", 1)
	_, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", Offset: 5})
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.From != 5 || corrupt.To != 7 || !errors.Is(err, ErrCorrupt) || Temporary(err) {
		t.Errorf("got %v, want a CorruptError of 5 to 7", err)
	}
}

// TestBombFromABroker is skipped and reported, and the fetch goes on behind it.
func TestBombFromABroker(t *testing.T) {
	bomb := packed(codecGzip, packGzip, 1, appendBatch(nil, []Message{{Value: make([]byte, 4<<20)}})[batchHeader:])
	b := startBroker(t, embedded.Options{Cluster: []kfake.Opt{kfake.SyntheticFetch(kfake.SyntheticBatch{Batch: bomb})}})
	c := startClient(t, Config{Brokers: b.Addrs(), MaxDecompressed: 1 << 20})
	makeTopic(t, c, "t", 1)
	got, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", Offset: 41, MaxBytes: 1})
	if err != nil || len(got.Records) != 0 || len(got.Skipped) == 0 {
		t.Fatalf("got %+v and %v, want a skip", got, err)
	}
	if s := got.Skipped[0]; s.From != 41 || s.To != 41 || s.Reason != SkipTooLarge || !errors.Is(s.Err, ErrDecompressedTooLarge) {
		t.Errorf("got %+v, want offset 41 too large", s)
	}
	if got.Next < 42 {
		t.Errorf("got next %d, want behind the bomb", got.Next)
	}
}

// TestNoWholeBatch answers with the beginning of a batch, as brokers before Kafka 0.10.1 did, until there is room.
func TestNoWholeBatch(t *testing.T) {
	var asked []int32
	b, c := withTopic(t, 1, Config{})
	b.Cluster().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.FetchRequest)
		if !ok {
			return nil, io.ErrUnexpectedEOF, true
		}
		b.Cluster().KeepControl()
		size := req.Topics[0].Partitions[0].PartitionMaxBytes
		asked = append(asked, size)
		batch := three()
		return fetchAnswer(req, batch[:min(len(batch), int(size))]), nil, true
	})
	got, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", MaxBytes: 20})
	if err != nil || len(got.Records) != 3 || !slices.Equal(asked, []int32{20, 80, 320}) {
		t.Errorf("got %d records and %v, asked for %v", len(got.Records), err, asked)
	}
}

// fetchAnswer is a broker's answer to req with one partition's record set.
func fetchAnswer(req *kmsg.FetchRequest, set []byte) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = req.Topics[0].Topic
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition = req.Topics[0].Partitions[0].Partition
	p.HighWatermark = 1 << 40
	p.RecordBatches = set
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

package kafkalink

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// realKafka starts an embedded broker with floodgate's topics, and returns a client of it.
func realKafka(t *testing.T, partitions int) (*embedded.Broker, *kafkaio.Client) {
	t.Helper()
	b, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	c := kafkaio.New(kafkaio.Config{Brokers: []string{b.Addr()}, Timeout: time.Minute}) // some produce 66 MiB, on any machine
	t.Cleanup(c.Close)
	if _, err := c.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), partitions)...); err != nil {
		t.Fatal(err)
	}
	return b, c
}

// eventually waits until done, and fails the test if that takes too long.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long for: %s", what)
		}
	}
}

// The whole way over the wire protocol: requests into the log, a decision from the log, a canary there and back.
func TestRoundTripOnARealBroker(t *testing.T) {
	b, c := realKafka(t, 2)
	set := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)})
	keys, rec := set.Gate("key"), record.New(record.Options{})
	link := newLink(set, rec, Config{
		Brokers: []string{b.Addr()}, Canary: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	link.start()
	t.Cleanup(link.Close)
	if err := link.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		var callers gate.Callers
		callers.Add(keys, fmt.Sprint("key-", i%10))
		rec.Record(&callers, set.Check(&callers), record.Request{Resource: "/"})
	}
	eventually(t, "1000 requests acknowledged", func() bool { return rec.Stats().Acked == 1000 })

	analyze := realOracle{t: t, client: c, sums: map[string]uint64{}}
	eventually(t, "a lag measured", func() bool { analyze.step(); return link.Stats().Lag.Samples > 2 })
	if analyze.sums["key-3"] != 100 {
		t.Errorf("got %v in the log, want 100 requests of each key", analyze.sums)
	}
	analyze.write(0, pb.Record{Decision: &schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "key-3"}, Mode: schemas.ModeEnforce,
		CloseAt: time.Now().UnixNano(), Until: time.Now().Add(time.Hour).UnixNano(),
	}})
	eventually(t, "key-3 closed", func() bool { return keys.Closed("key-3") })
	if s := link.Stats(); !s.Connected || s.Lag.P50 <= 0 || s.Lag.P50 > 5*time.Second || len(s.Refused) != 0 {
		t.Errorf("got %+v, want a link that is up, with a lag, and nothing refused", s)
	}
	link.Close()
}

// realOracle is as much of an analyzer as a link needs: it answers canaries and sums requests up.
type realOracle struct {
	t      *testing.T
	client *kafkaio.Client
	next   [2]int64
	seq    [2]uint64
	sums   map[string]uint64
}

func (o *realOracle) step() {
	for p := range o.next {
		b, err := o.client.Fetch(o.t.Context(), kafkaio.FetchRequest{
			Topic: "floodgate.requests", Partition: p, Offset: o.next[p],
		})
		if err != nil {
			o.t.Fatal(err)
		}
		o.next[p] = b.Next
		for _, r := range b.Records {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				o.t.Fatal(err)
			}
			for _, e := range f.Entries {
				o.fold(p, &e)
			}
		}
	}
}

func (o *realOracle) fold(p int, e *schemas.Entry) {
	if e.Kind != schemas.KindCanary {
		o.sums[e.ID] += uint64(e.Count)
		return
	}
	o.write(p, pb.Record{Decision: &schemas.Decision{
		Rule: "_canary", Caller: e.Caller(), Mode: schemas.ModeShadow, CloseAt: e.Time, Until: e.Time,
		Partition: int32(p), Evidence: schemas.Evidence{AsOfTime: e.Time},
	}})
}

// write writes a decision, after a claim if it is the first of its partition.
func (o *realOracle) write(p int, r pb.Record) {
	o.t.Helper()
	var msgs []kafkaio.Message
	if o.seq[p] == 0 {
		msgs = append(msgs, kafkaio.Message{Value: encode(pb.Record{Claim: &schemas.Claim{Partition: int32(p), Epoch: 1}})})
	}
	o.seq[p]++
	r.Decision.Epoch, r.Decision.Seq = 1, o.seq[p]
	msgs = append(msgs, kafkaio.Message{Value: encode(r)})
	if _, err := o.client.Produce(o.t.Context(), "floodgate.decisions", p, msgs...); err != nil {
		o.t.Fatal(err)
	}
}

// A broker that is killed and comes back: every request is settled, and what is acknowledged is in the log.
func TestARealBrokerGoesAndComesBack(t *testing.T) {
	dir := t.TempDir()
	start := func(listen string) *embedded.Broker {
		b, err := embedded.Start(embedded.Options{Dir: dir, Listen: listen})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := start("")
	addr := b.Addr()
	c := kafkaio.New(kafkaio.Config{Brokers: []string{addr}})
	defer c.Close()
	if _, err := c.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), 2)...); err != nil {
		t.Fatal(err)
	}
	set := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)})
	keys, rec := set.Gate("key"), record.New(record.Options{})
	link := newLink(set, rec, Config{Brokers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
	link.start()
	t.Cleanup(link.Close)
	send := func(n uint64) {
		for range n {
			var callers gate.Callers
			callers.Add(keys, "k")
			rec.Record(&callers, gate.Verdict{}, record.Request{})
		}
	}
	send(100)
	eventually(t, "100 acknowledged", func() bool { return rec.Stats().Acked == 100 })
	_ = b.Close()
	send(100)
	eventually(t, "the link to notice", func() bool { return !link.Stats().Connected })
	b = start(addr)
	defer b.Close()
	eventually(t, "everything settled", func() bool { return rec.Stats().Queued == 0 })
	eventually(t, "the link to be up", func() bool { return link.Stats().Connected })
	send(100)
	eventually(t, "the newest acknowledged", func() bool { s := rec.Stats(); return s.Acked+s.Unknown == 300 })
	link.Close()
}

// A batch of decisions that is too long to be read is counted and passed over, where a link starts and where it reads.
func TestALongBatchOfDecisionsStopsNoLink(t *testing.T) {
	testenv.Long(t)
	b, c := realKafka(t, 1)
	names := schemas.DefaultTopicNames()
	names.Decisions = "roomy"
	spec := kafkaio.TopicSpec{Name: names.Decisions, Partitions: 1, Settings: []kafkaio.Setting{{Name: "max.message.bytes", Value: "100000000"}}}
	if _, err := c.EnsureTopics(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	long := func() {
		half := kafkaio.Message{Time: time.Now().UnixNano(), Value: make([]byte, 33<<20)}
		if _, err := c.Produce(t.Context(), names.Decisions, 0, half, half); err != nil {
			t.Fatal(err)
		}
	}
	write := func(r pb.Record) {
		if _, err := c.Produce(t.Context(), names.Decisions, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: encode(r)}); err != nil {
			t.Fatal(err)
		}
	}
	closes := func(id string, seq uint64) pb.Record {
		return pb.Record{Decision: &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, Epoch: 1, Seq: seq,
			CloseAt: time.Now().UnixNano(), Until: time.Now().Add(time.Hour).UnixNano(),
		}}
	}
	write(pb.Record{Claim: &schemas.Claim{Epoch: 1}})
	write(closes("before", 1))
	long()
	write(closes("between", 2))
	set := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)})
	keys := set.Gate("key")
	link := newLink(set, record.New(record.Options{}), Config{
		Brokers: []string{b.Addr()}, Topics: names, Canary: -1, Logger: slog.New(slog.DiscardHandler),
	})
	link.start()
	t.Cleanup(link.Close)
	eventually(t, "what is around the first batch", func() bool { return keys.Closed("before") && keys.Closed("between") })
	long()
	write(closes("behind", 3))
	eventually(t, "what is behind the second batch", func() bool { return keys.Closed("behind") })
	if got := link.Stats().Refused["too_large"]; got != 4 {
		t.Errorf("got %d messages too large, want the four", got)
	}
	link.Close()
}

package kafkalink

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// cluster is a Kafka in memory with the topics of a link.
type cluster struct{ *kafkaiotest.Kafka }

func newCluster(partitions int) *cluster {
	k := kafkaiotest.New()
	k.Create(partitions, "floodgate.requests", "floodgate.decisions")
	k.SetMaxRecords(100)
	return &cluster{k}
}

var errServer = errors.New("internal server error")

func down(kafkaiotest.Call) kafkaiotest.Fault      { return kafkaiotest.Down() }
func blackHole(kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.Silent() }
func slow(kafkaiotest.Call) kafkaiotest.Fault      { return kafkaiotest.Slow(500 * time.Millisecond) }

// failing lets calls of one kind fail.
func failing(op kafkaiotest.Op, err error) func(kafkaiotest.Call) kafkaiotest.Fault {
	return func(c kafkaiotest.Call) kafkaiotest.Fault {
		if c.Op == op {
			return kafkaiotest.Returns(err)
		}
		return kafkaiotest.Fault{}
	}
}

// frames returns the frames of all partitions of requests, without canaries.
func (k *cluster) frames(t *testing.T) (fs []schemas.Frame) {
	t.Helper()
	for p := range k.Size("floodgate.requests") {
		for _, r := range k.Records("floodgate.requests", p) {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				t.Fatalf("decode frame: %v", err)
			}
			for _, e := range f.Entries {
				if got := schemas.Partition(schemas.DefaultPartitionKey().Hash(e.Kind, e.ID), int(f.Partitions)); got != p {
					t.Errorf("%s is in partition %d, want %d", e.Caller(), p, got)
				}
			}
			fs = append(fs, f)
		}
	}
	return fs
}

// requests returns how many requests of each caller are in the log, counting a frame that is there twice once.
func (k *cluster) requests(t *testing.T) map[string]uint64 {
	t.Helper()
	type key struct {
		producer   schemas.ProducerID
		seq        uint64
		first      schemas.Caller
		partitions uint32
	}
	seen := map[key]bool{}
	sum := map[string]uint64{}
	for _, f := range k.frames(t) {
		id := key{f.Producer, f.Seq, f.Entries[0].Caller(), f.Partitions}
		if seen[id] {
			continue
		}
		seen[id] = true
		for _, e := range f.Entries {
			if e.Kind != schemas.KindCanary {
				sum[e.ID] += uint64(e.Count)
			}
		}
	}
	return sum
}

// world is one server with a link to a Kafka in memory, in a synctest bubble.
type world struct {
	t     *testing.T
	kafka *cluster
	set   *gate.Set
	keys  *gate.Gate
	rec   *record.Recorder
	link  *Link
	logs  *strings.Builder
	costs []int64 // of canaries
}

// newWorld returns a world whose link does not run yet.
func newWorld(t *testing.T, partitions int, c Config) *world {
	t.Helper()
	return newWorldOf(t, partitions, c, gate.Options{MaxJitter: -1})
}

// newWorldOf is newWorld with another Set.
func newWorldOf(t *testing.T, partitions int, c Config, o gate.Options) *world {
	t.Helper()
	logs := &strings.Builder{}
	logger := slog.New(slog.NewTextHandler(logs, nil))
	w := &world{t: t, kafka: newCluster(partitions), logs: logs, rec: record.New(record.Options{MaxEntries: c.Backlog})}
	o.Logger = logger
	w.set = gate.New(o)
	w.keys = w.set.Gate("key")
	c.Log, c.Logger = w.kafka, logger
	if c.Canary == 0 {
		c.Canary = -1
	}
	w.link = newLink(w.set, w.rec, c)
	return w
}

// start runs the link until shutdown, or the end of the test.
func (w *world) start() {
	w.link.start()
	w.t.Cleanup(w.link.Close)
}

// shutdown ends the link and returns how long that took.
func (w *world) shutdown() time.Duration {
	w.t.Helper()
	began := time.Now()
	w.link.Close()
	took := time.Since(began)
	w.conserve()
	return took
}

// request records one request, and fails the test if that takes any time.
func (w *world) request(id string) {
	w.t.Helper()
	began := time.Now()
	var c gate.Callers
	c.Add(w.keys, id)
	w.rec.Record(&c, w.set.Check(&c), record.Request{Resource: "/"})
	if took := time.Since(began); took != 0 {
		w.t.Fatalf("a request was held up for %v", took)
	}
}

// conserve fails the test if a request is not accounted for.
func (w *world) conserve() record.Stats {
	w.t.Helper()
	s := w.link.Stats().Requests
	if s.Accepted != s.Acked+s.DroppedTotal()+s.Unknown+s.Queued {
		w.t.Fatalf("accepted %d ≠ acked %d + dropped %v + unknown %d + queued %d",
			s.Accepted, s.Acked, s.Dropped, s.Unknown, s.Queued)
	}
	return s
}

// pass lets virtual time pass, and whoever wakes in it finish.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// owner writes decisions to one partition as an analyzer does.
type owner struct {
	k          *cluster
	partition  int
	epoch, seq uint64
	from       int64
	read       int // records of requests
}

func (o *owner) write(m pb.Record) int64 {
	return o.k.Append("floodgate.decisions", o.partition, kafkaio.Message{Time: time.Now().UnixNano(), Value: encode(m)})
}

func (o *owner) claim() {
	o.seq = 0
	o.write(pb.Record{Claim: &schemas.Claim{Partition: int32(o.partition), Epoch: o.epoch, Nonce: 1}})
}

func (o *owner) beat() {
	o.seq++
	o.write(pb.Record{Heartbeat: &schemas.Heartbeat{
		Partition: int32(o.partition), Epoch: o.epoch, Seq: o.seq, Time: time.Now().UnixNano(), From: o.from,
	}})
}

// decide closes a key's gate for d, or opens it if d is 0.
func (o *owner) decide(id string, d time.Duration) int64 {
	o.seq++
	now := time.Now()
	return o.write(pb.Record{Decision: &schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(),
		Until: now.Add(d).UnixNano(), Partition: int32(o.partition), Epoch: o.epoch, Seq: o.seq,
	}})
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// encode returns a record as the analyzer writes it.
func encode(m pb.Record) []byte {
	var b []byte
	var err error
	switch {
	case m.Decision != nil:
		b, err = pb.AppendDecision(nil, m.Decision)
	case m.Claim != nil:
		b, err = pb.AppendClaim(nil, m.Claim)
	case m.Heartbeat != nil:
		b, err = pb.AppendHeartbeat(nil, m.Heartbeat)
	}
	if err != nil {
		panic(err)
	}
	return b
}

package kafkalink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// fakeKafka is a cluster in memory, on virtual time, with whatever faults a story needs.
type fakeKafka struct {
	mu         sync.Mutex
	partitions int
	logs       map[string]*fakeLog
	more       chan struct{} // closed at the next append
	fault      func(op, topic string, partition int) fault
	calls      map[string]int
}

type fakeLog struct {
	start   int64
	records []kafkaio.Record
	damaged map[int64]bool
}

func (l *fakeLog) end() int64 { return l.start + int64(len(l.records)) }

// fault is what goes wrong with one call. The zero value is nothing.
type fault struct {
	delay  time.Duration
	hang   bool  // until the caller gives up
	append bool  // a produce lands in the log all the same
	err    error // what the call returns
}

var (
	errDown   = errors.New("connection refused")
	errServer = errors.New("internal server error")
)

func newFakeKafka(partitions int) *fakeKafka {
	return &fakeKafka{
		partitions: partitions, logs: make(map[string]*fakeLog), more: make(chan struct{}), calls: make(map[string]int),
	}
}

// setFault replaces what goes wrong; nil is nothing.
func (k *fakeKafka) setFault(f func(op, topic string, partition int) fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = f
}

func down(string, string, int) fault      { return fault{err: errDown} }
func blackHole(string, string, int) fault { return fault{hang: true} }
func slow(string, string, int) fault      { return fault{delay: 500 * time.Millisecond} }

func (k *fakeKafka) log(topic string, p int) *fakeLog {
	key := fmt.Sprint(topic, "/", p)
	if k.logs[key] == nil {
		k.logs[key] = &fakeLog{}
	}
	return k.logs[key]
}

// begin counts a call and lets its fault happen.
func (k *fakeKafka) begin(ctx context.Context, op, topic string, p int) (fault, error) {
	k.mu.Lock()
	k.calls[op]++
	var f fault
	if k.fault != nil {
		f = k.fault(op, topic, p)
	}
	k.mu.Unlock()
	if f.hang {
		f.delay = 5 * time.Second // the client's timeout
		f.err = context.DeadlineExceeded
	}
	if f.delay > 0 {
		if err := sleep(ctx, f.delay); err != nil {
			return f, k.failed(op, topic, p, kafkaio.Unknown, err)
		}
	}
	if f.err == nil || f.append {
		return f, nil
	}
	outcome := kafkaio.Unknown
	switch {
	case errors.Is(f.err, errDown):
		outcome = kafkaio.Unsent
	case errors.Is(f.err, kafkaio.ErrTimestamp), errors.Is(f.err, kafkaio.ErrTooLarge), errors.Is(f.err, kafkaio.ErrUnauthorized):
		outcome = kafkaio.Refused
	}
	return f, k.failed(op, topic, p, outcome, f.err)
}

func (k *fakeKafka) failed(op, topic string, p int, o kafkaio.Outcome, err error) error {
	return &kafkaio.RequestError{Op: op, Topic: topic, Partition: p, Outcome: o, Err: err}
}

func (k *fakeKafka) Produce(ctx context.Context, topic string, p int, msgs ...kafkaio.Message) (int64, error) {
	f, err := k.begin(ctx, "produce", topic, p)
	if err != nil {
		return 0, err
	}
	base := k.append(topic, p, msgs...)
	if f.append {
		return 0, k.failed("produce", topic, p, kafkaio.Unknown, f.err)
	}
	return base, nil
}

func (k *fakeKafka) append(topic string, p int, msgs ...kafkaio.Message) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.log(topic, p)
	base := l.end()
	for _, m := range msgs {
		l.records = append(l.records, kafkaio.Record{
			Offset: l.end(), Time: m.Time, Value: append([]byte(nil), m.Value...),
		})
	}
	close(k.more)
	k.more = make(chan struct{})
	return base
}

func (k *fakeKafka) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	if _, err := k.begin(ctx, "fetch", r.Topic, r.Partition); err != nil {
		return kafkaio.Batch{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.MaxWait)
	defer cancel()
	for {
		k.mu.Lock()
		l, more := k.log(r.Topic, r.Partition), k.more
		if r.Offset < l.start || r.Offset > l.end() {
			defer k.mu.Unlock()
			return kafkaio.Batch{}, k.failed("fetch", r.Topic, r.Partition, kafkaio.Unknown,
				&kafkaio.RangeError{Offset: r.Offset, Start: l.start, End: l.end()})
		}
		records, end := l.records[r.Offset-l.start:], l.end()
		records = records[:min(len(records), 100)]
		if bad := slices.IndexFunc(records, func(r kafkaio.Record) bool { return l.damaged[r.Offset] }); bad > 0 {
			records = records[:bad]
		} else if bad == 0 {
			defer k.mu.Unlock()
			return kafkaio.Batch{}, k.failed("fetch", r.Topic, r.Partition, kafkaio.Unknown,
				&kafkaio.CorruptError{From: r.Offset, To: r.Offset})
		}
		k.mu.Unlock()
		if len(records) > 0 {
			return kafkaio.Batch{Records: records, Next: r.Offset + int64(len(records)), HighWater: end}, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return kafkaio.Batch{Next: r.Offset, HighWater: r.Offset}, nil
		}
	}
}

func (k *fakeKafka) Range(ctx context.Context, topic string, p int) (start, end int64, err error) {
	if _, err := k.begin(ctx, "range", topic, p); err != nil {
		return 0, 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.log(topic, p)
	return l.start, l.end(), nil
}

func (k *fakeKafka) Partitions(ctx context.Context, topic string) (int, error) {
	if _, err := k.begin(ctx, "partitions", topic, 0); err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.partitions, nil
}

func (k *fakeKafka) Close() {}

// frames returns the frames of all partitions of requests, without canaries.
func (k *fakeKafka) frames(t *testing.T) (fs []schemas.Frame) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.partitions {
		for _, r := range k.log("floodgate.requests", p).records {
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
func (k *fakeKafka) requests(t *testing.T) map[string]uint64 {
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

// world is one server with a link to a fakeKafka, in a synctest bubble.
type world struct {
	t     *testing.T
	kafka *fakeKafka
	set   *gate.Set
	keys  *gate.Gate
	rec   *record.Recorder
	link  *Link
	logs  *strings.Builder
	stop  context.CancelFunc
	ended chan error
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
	w := &world{t: t, kafka: newFakeKafka(partitions), logs: logs, rec: record.New(record.Options{MaxEntries: c.Backlog})}
	o.Logger = logger
	w.set = gate.New(o)
	w.keys = w.set.Gate("key")
	c.Brokers, c.Logger = []string{"fake"}, logger
	if c.Canary == 0 {
		c.Canary = -1
	}
	w.link = New(w.set, w.rec, c)
	w.link.connect = func() client { return w.kafka }
	return w
}

// start runs the link until shutdown, or the end of the test.
func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.stop, w.ended = cancel, make(chan error, 1)
	go func() { w.ended <- w.link.Run(ctx) }()
}

// shutdown ends the link and returns how long that took.
func (w *world) shutdown() time.Duration {
	w.t.Helper()
	began := time.Now()
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Errorf("got %v from Run, want nil", err)
	}
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
	k          *fakeKafka
	partition  int
	epoch, seq uint64
	from       int64
	read       int // records of requests
}

func (o *owner) write(m pb.Record) int64 {
	return o.k.append("floodgate.decisions", o.partition, kafkaio.Message{Time: time.Now().UnixNano(), Value: encode(m)})
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

package kafkalink

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// connections are those that links have open, by the address of the broker.
type connections struct {
	mu   sync.Mutex // protects what follows
	open map[string]int
	most map[string]int
}

func (o *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.add(address, 1)
	return &connection{Conn: conn, closed: sync.OnceFunc(func() { o.add(address, -1) })}, nil
}

func (o *connections) add(address string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open, o.most = make(map[string]int), make(map[string]int)
	}
	o.open[address] += n
	o.most[address] = max(o.most[address], o.open[address])
}

// all returns how many connections are open.
func (o *connections) all() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, open := range o.open {
		n += open
	}
	return n
}

// connection is a net.Conn that is counted until it is closed.
type connection struct {
	net.Conn

	closed func()
}

func (c *connection) Close() error {
	c.closed()
	return c.Conn.Close()
}

// beat writes a heartbeat to a partition of decisions.
func beat(t testing.TB, c *kafkaio.Client, p int, seq uint64) {
	t.Helper()
	now := time.Now().UnixNano()
	_, err := c.Produce(t.Context(), schemas.DefaultTopicNames().Decisions, p, kafkaio.Message{Time: now, Value: encode(pb.Record{
		Heartbeat: &schemas.Heartbeat{Partition: int32(p), Epoch: 1, Seq: seq, Time: now},
	})})
	if err != nil {
		t.Fatal(err)
	}
}

// fanOut is brokers, topics of some partitions, and links to them.
type fanOut struct {
	t           testing.TB
	partitions  int
	addr        string
	client      *kafkaio.Client
	connections connections
	recs        []*record.Recorder
	links       []*Link
	applied     func(schemas.Decision, time.Time)
}

func newFanOut(t testing.TB, brokers, partitions int) *fanOut {
	t.Helper()
	b, err := embedded.Start(embedded.Options{Nodes: brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	f := &fanOut{t: t, partitions: partitions, addr: b.Addr(), client: kafkaio.New(kafkaio.Config{Brokers: b.Addrs()})}
	t.Cleanup(f.client.Close)
	if _, err := f.client.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), partitions)...); err != nil {
		t.Fatal(err)
	}
	for p := range partitions {
		beat(t, f.client, p, 1)
	}
	return f
}

// open opens n links, and waits until they have read what is there and sent a request to each partition.
func (f *fanOut) open(n int) {
	f.t.Helper()
	for range n {
		set, rec := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)}), record.New(record.Options{})
		topics := schemas.DefaultTopicNames()
		client := kafkaio.New(kafkaio.Config{Brokers: []string{f.addr}, Topics: []string{topics.Requests, topics.Decisions}, Dial: f.connections.dial})
		f.t.Cleanup(client.Close)
		l := newLink(set, rec, Config{Log: client, Drain: time.Millisecond, Observe: f.applied, Logger: slog.New(slog.DiscardHandler)})
		l.start()
		f.t.Cleanup(l.Close)
		f.links, f.recs = append(f.links, l), append(f.recs, rec)
	}
	for i, l := range f.links {
		if err := l.Ready(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
		f.record(i)
	}
	for _, rec := range f.recs {
		f.settled(rec)
	}
}

// record records requests of so many callers at a link that there are some for each partition.
func (f *fanOut) record(link int) {
	keys := f.links[link].set.Gate("key")
	for i := range 8 * f.partitions {
		var c gate.Callers
		c.Add(keys, fmt.Sprint("caller-", i))
		f.recs[link].Record(&c, gate.Verdict{}, record.Request{})
	}
}

func (f *fanOut) settled(rec *record.Recorder) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); rec.Stats().Queued > 0; {
		if time.Now().After(deadline) {
			f.t.Fatalf("got %+v after a minute, want all settled", rec.Stats())
		}
		runtime.Gosched()
	}
}

// TestALinkHasFewConnections: a link has up to four connections to each broker, also while it starts, while all its partitions have
// something to read, and while it sends to all of them.
func TestALinkHasFewConnections(t *testing.T) {
	for _, c := range []struct{ brokers, partitions int }{{1, 4}, {1, 64}, {3, 64}} {
		t.Run(fmt.Sprintf("%d brokers, %d partitions", c.brokers, c.partitions), func(t *testing.T) {
			f := newFanOut(t, c.brokers, c.partitions)
			f.open(1)
			heard := f.links[0].Stats().Heartbeats
			for round := range 10 {
				for p := range c.partitions {
					beat(t, f.client, p, uint64(2+round))
				}
				f.record(0)
				f.settled(f.recs[0])
			}
			eventually(t, "all heartbeats heard", func() bool {
				return f.links[0].Stats().Heartbeats == heard+uint64(10*c.partitions)
			})
			if s := f.recs[0].Stats(); s.Acked != s.Accepted {
				t.Errorf("got %+v, want all acknowledged", s)
			}
			f.connections.mu.Lock()
			defer f.connections.mu.Unlock()
			if len(f.connections.most) != c.brokers {
				t.Errorf("got connections to %v, want %d brokers", f.connections.most, c.brokers)
			}
			for broker, n := range f.connections.most {
				if n > 4 {
					t.Errorf("got %d connections to %s, want up to 4", n, broker)
				}
			}
		})
	}
}

// BenchmarkLinks reports what each of many links in one process costs, of 4, 16 and 64 partitions. The embedded broker is in the
// same process: memory and goroutines are those of both ends.
func BenchmarkLinks(b *testing.B) {
	for _, partitions := range []int{4, 16, 64} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			f := newFanOut(b, 1, partitions)
			heap, goroutines := heapInUse(), runtime.NumGoroutine()
			f.open(b.N)
			links := float64(b.N)
			b.ReportMetric(float64(f.connections.all())/links, "connections/link")
			b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/links, "goroutines/link")
			b.ReportMetric((float64(heapInUse())-float64(heap))/links/(1<<20), "MiB/link")
		})
	}
}

// BenchmarkReadLag reports how long after a decision was written, to one partition after the other, a link has applied it.
func BenchmarkReadLag(b *testing.B) {
	for _, partitions := range []int{4, 64} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			f := newFanOut(b, 1, partitions)
			at := make(chan time.Time, 1)
			f.applied = func(_ schemas.Decision, applied time.Time) { at <- applied }
			f.open(1)
			var lags []time.Duration
			for i := 0; b.Loop(); i++ {
				p := i * 7 % partitions
				began := time.Now()
				_, err := f.client.Produce(b.Context(), schemas.DefaultTopicNames().Decisions, p, kafkaio.Message{Time: began.UnixNano(), Value: encode(pb.Record{
					Decision: &schemas.Decision{
						Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "k"}, Mode: schemas.ModeEnforce, Partition: int32(p), Epoch: 1,
						Seq: uint64(2 + i), CloseAt: began.UnixNano(), Until: began.Add(time.Hour).UnixNano(),
					},
				})})
				if err != nil {
					b.Fatal(err)
				}
				lags = append(lags, (<-at).Sub(began))
			}
			slices.Sort(lags)
			b.ReportMetric(float64(quantile(lags, 0.5))/1e3, "µs/p50")
			b.ReportMetric(float64(quantile(lags, 0.99))/1e3, "µs/p99")
		})
	}
}

// BenchmarkSendLag reports how long after requests were recorded, some for each partition, the last of them is acknowledged.
func BenchmarkSendLag(b *testing.B) {
	for _, partitions := range []int{4, 64} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			f := newFanOut(b, 1, partitions)
			f.open(1)
			var lags []time.Duration
			for b.Loop() {
				began := time.Now()
				f.record(0)
				f.settled(f.recs[0])
				lags = append(lags, time.Since(began))
			}
			slices.Sort(lags)
			b.ReportMetric(float64(quantile(lags, 0.5))/1e3, "µs/p50")
			b.ReportMetric(float64(quantile(lags, 0.99))/1e3, "µs/p99")
		})
	}
}

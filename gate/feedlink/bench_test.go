package feedlink

import (
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// installation is a broker, an owner that only beats, and a sidecar at a Unix socket, in this process.
type installation struct {
	b       *testing.B
	broker  *embedded.Broker
	client  *kafkaio.Client // of the owner
	address string          // of the feed
	asked   atomic.Int64    // requests to the broker: produce and fetch
	seq     uint64
	frames  *feed.Frames

	mu      sync.Mutex
	applied map[string]time.Time // by id: when the sidecar's own Set had it
}

func install(b *testing.B, partitions int) *installation {
	b.Helper()
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = broker.Close() })
	in := &installation{b: b, broker: broker, applied: make(map[string]time.Time), address: "unix:" + filepath.Join(b.TempDir(), "feed")}
	broker.Cluster().Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.Cluster().KeepControl()
		if r.Key() < 2 {
			in.asked.Add(1)
		}
		return nil, nil, false
	})
	in.client = kafkaio.New(kafkaio.Config{Brokers: broker.Addrs()})
	b.Cleanup(in.client.Close)
	if _, err := in.client.EnsureTopics(b.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), partitions)...); err != nil {
		b.Fatal(err)
	}
	for p := range partitions {
		in.beat(p)
	}
	in.sidecar()
	return in
}

func (in *installation) write(partition int, value []byte, err error) {
	in.b.Helper()
	if err == nil {
		_, err = in.client.Produce(in.b.Context(), decisions, partition, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
	}
	if err != nil {
		in.b.Fatal(err)
	}
}

func (in *installation) beat(p int) {
	in.b.Helper()
	in.seq++
	value, err := pb.AppendHeartbeat(nil, &schemas.Heartbeat{Partition: int32(p), Epoch: 5, Seq: in.seq, Time: time.Now().UnixNano()})
	in.write(p, value, err)
}

// sidecar serves a feed, with one client of Kafka.
func (in *installation) sidecar() {
	quiet := slog.New(slog.DiscardHandler)
	watched := board.New(board.Options{MaxSubscribers: 4096})
	config := kafkalink.Config{Brokers: in.broker.Addrs(), Watch: watched.Handler(), Canary: -1, Logger: quiet, Observe: func(d schemas.Decision, at time.Time) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.applied[d.Caller.ID] = at
	}}
	client := config.Client()
	config.Log = client
	link, err := kafkalink.Open(gate.New(gate.Options{Logger: quiet}), record.New(record.Options{}), config)
	if err != nil {
		in.b.Fatal(err)
	}
	in.frames = feed.NewFrames(feed.FramesOptions{Log: client, Topic: requests, Key: schemas.DefaultPartitionKey(), Partitions: watched.Partitions})
	server := feed.New(feed.Options{Board: watched, Frames: in.frames})
	l, err := net.Listen("unix", strings.TrimPrefix(in.address, "unix:"))
	if err != nil {
		in.b.Fatal(err)
	}
	h := &http.Server{Handler: server}
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(l) })
	in.b.Cleanup(func() {
		server.Close()
		_ = h.Close()
		serving.Wait()
		link.Close()
		client.Close()
	})
	if err := link.Ready(in.b.Context()); err != nil {
		in.b.Fatal(err)
	}
}

// server opens a server's link, to the feed or to Kafka, and returns what serves a request of a key.
func (in *installation) server(byFeed bool, observe func(schemas.Decision, time.Time)) (serve func(id string)) {
	in.b.Helper()
	quiet := slog.New(slog.DiscardHandler)
	set, rec := gate.New(gate.Options{Logger: quiet}), record.New(record.Options{MaxEntries: 1024})
	var link *kafkalink.Link
	var err error
	if byFeed {
		link, err = Open(set, rec, Config{Address: in.address, Logger: quiet, Observe: observe})
	} else {
		link, err = kafkalink.Open(set, rec, kafkalink.Config{Brokers: in.broker.Addrs(), Logger: quiet, Observe: observe})
	}
	if err != nil {
		in.b.Fatal(err)
	}
	in.b.Cleanup(link.Close)
	if err := link.Ready(in.b.Context()); err != nil {
		in.b.Fatal(err)
	}
	keys := set.Gate("key")
	return func(id string) {
		var c gate.Callers
		c.Add(keys, id)
		rec.Record(&c, set.Check(&c), record.Request{Resource: "GET /"})
	}
}

// connections returns how many connections the broker has.
func (in *installation) connections() (n int) {
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		in.b.Skip("needs /proc")
	}
	_, port, _ := net.SplitHostPort(in.broker.Addr())
	var number int
	_, _ = fmt.Sscan(port, &number)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line) // sl local remote state …
		if len(f) > 3 && f[3] == "01" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) {
			n++
		}
	}
	return n
}

// servers is how many servers BenchmarkBrokers has.
var servers = flag.Int("servers", 20, "servers of BenchmarkBrokers")

// BenchmarkBrokers reports what brokers see of servers that have 10 requests a second each, in 16 partitions: with a client of Kafka in each of
// them, and behind one sidecar. The sidecar is there both times. For example
//
//	go test ./gate/feedlink -run '^$' -bench Brokers -benchtime 5x -servers 100
func BenchmarkBrokers(b *testing.B) {
	for _, byFeed := range []bool{false, true} {
		b.Run(fmt.Sprintf("feed=%v", byFeed), func(b *testing.B) {
			in := install(b, 16)
			before := in.connections()
			var all []func(string)
			for range *servers {
				all = append(all, in.server(byFeed, nil))
			}
			asked, began := in.asked.Load(), time.Now()
			for b.Loop() {
				for i := range 10 { // a second
					for s, serve := range all {
						serve(fmt.Sprint(s, "-", i))
					}
					time.Sleep(100 * time.Millisecond)
				}
			}
			seconds := time.Since(began).Seconds()
			b.ReportMetric(float64(in.asked.Load()-asked)/seconds, "requests/s")
			b.ReportMetric(float64(in.connections()-before), "connections")
		})
	}
}

// BenchmarkDecision reports how long after a decision was in the sidecar's own gates it is in those of ten servers behind it.
func BenchmarkDecision(b *testing.B) {
	in := install(b, 1)
	var mu sync.Mutex
	var took []time.Duration
	heard := make(chan struct{}, 1024)
	const followers = 10
	for range followers {
		in.server(true, func(d schemas.Decision, at time.Time) {
			in.mu.Lock()
			applied := in.applied[d.Caller.ID]
			in.mu.Unlock()
			mu.Lock()
			took = append(took, at.Sub(applied))
			mu.Unlock()
			heard <- struct{}{}
		})
	}
	n := 0
	for b.Loop() {
		n++
		now := time.Now()
		in.seq++
		value, err := pb.AppendDecision(nil, &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint(n)}, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(),
			Until: now.Add(time.Hour).UnixNano(), Epoch: 5, Seq: in.seq,
		})
		in.write(0, value, err)
		for range followers {
			<-heard
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
}

// BenchmarkFramesOfServers reports how many frames of 100 entries one sidecar passes on in a second, from 64 connections.
func BenchmarkFramesOfServers(b *testing.B) {
	in := install(b, 16)
	s, err := newSource(nil, Config{Address: in.address})
	if err != nil {
		b.Fatal(err)
	}
	s.frames.client.Transport.(*http.Transport).MaxConnsPerHost = 64
	s.frames.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	defer s.Close()
	var next atomic.Uint64
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		producer := schemas.ProducerID{byte(next.Add(1))}
		f := schemas.Frame{Producer: producer, Partitions: 16, Fingerprint: schemas.DefaultPartitionKey().Fingerprint()}
		partition := int(producer[0]) % 16
		for i := 0; len(f.Entries) < 100; i++ {
			if id := fmt.Sprint("k", i); schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), 16) == partition {
				f.Entries = append(f.Entries, schemas.Entry{Kind: "key", ID: id, Count: 1})
			}
		}
		for p.Next() {
			f.Seq++
			f.Flushed = time.Now().UnixNano()
			value, err := f.AppendTo(nil)
			if err == nil {
				_, err = s.Produce(b.Context(), requests, partition, kafkaio.Message{Value: value})
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

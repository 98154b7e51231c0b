package feedlink

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	requests  = "floodgate.requests"
	decisions = "floodgate.decisions"
)

// world is a Kafka in memory, a sidecar that can be killed, and a server that reaches the sidecar through pipes.
type world struct {
	t     *testing.T
	kafka *kafkaiotest.Kafka
	side  *sidecar // nil: killed
	owner owner

	mu    sync.Mutex
	fault func(http.ResponseWriter, *http.Request) bool // answers in the sidecar's place; nil: never

	set    *gate.Set
	keys   *gate.Gate
	rec    *record.Recorder
	source *source
	link   *kafkalink.Link
	logs   *strings.Builder
}

// inWorld runs a test in a bubble of synctest, with n partitions. The sidecar runs, the server's link does not yet.
func inWorld(t *testing.T, n int, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, kafka: kafkaiotest.New(), logs: &strings.Builder{}}
		w.kafka.Create(n, requests, decisions)
		w.owner = owner{k: w.kafka, epoch: 5}
		w.owner.claim()
		w.begin()
		test(w)
		w.kill()
		if w.link != nil {
			w.link.Close()
			w.conserve()
		}
	})
}

// sidecar is what a process of that name has.
type sidecar struct {
	set    *gate.Set
	board  *board.Board
	link   *kafkalink.Link
	frames *feed.Frames
	feed   *feed.Server
	http   *http.Server
	conns  chan net.Conn
	end    context.CancelFunc
}

// begin starts the sidecar.
func (w *world) begin() {
	w.t.Helper()
	b := board.New(board.Options{FirstChange: uint64(time.Now().UnixNano())})
	quiet := slog.New(slog.DiscardHandler)
	set := gate.New(gate.Options{Logger: quiet})
	link, err := kafkalink.Open(set, record.New(record.Options{}), kafkalink.Config{
		Log: w.kafka, Watch: b.Handler(), Canary: -1, Logger: quiet,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	go b.RunClock(ctx)
	s := &sidecar{set: set, board: b, link: link, conns: make(chan net.Conn), end: end}
	s.frames = feed.NewFrames(feed.FramesOptions{Log: w.kafka, Topic: requests, Key: schemas.DefaultPartitionKey(), Partitions: b.Partitions})
	s.feed = feed.New(feed.Options{Board: b, Frames: s.frames})
	s.http = &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		fault, server := w.fault, s.feed
		w.mu.Unlock()
		if fault == nil || !fault(rw, r) {
			server.ServeHTTP(rw, r)
		}
	})}
	go func() { _ = s.http.Serve(s) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.side = s
}

// kill ends the sidecar and cuts its connections.
func (w *world) kill() {
	w.mu.Lock()
	s := w.side
	w.side = nil
	w.mu.Unlock()
	if s == nil {
		return
	}
	s.feed.Close()
	_ = s.http.Close()
	s.link.Close()
	s.end()
	synctest.Wait()
}

// Accept implements net.Listener, as Close and Addr do.
func (s *sidecar) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *sidecar) Close() error { close(s.conns); return nil }

func (*sidecar) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial reaches the sidecar.
func (w *world) dial(context.Context, string, string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.side == nil {
		return nil, syscall.ECONNREFUSED
	}
	here, there := net.Pipe()
	w.side.conns <- there
	return here, nil
}

// setFault makes the sidecar answer in another way.
func (w *world) setFault(f func(http.ResponseWriter, *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// serve starts the server.
func (w *world) serve(o gate.Options, c Config) {
	w.t.Helper()
	logger := slog.New(slog.NewTextHandler(w.logs, nil))
	c.Address, c.Logger, o.Logger = "unix:pipe", logger, logger
	w.set, w.rec = gate.New(o), record.New(record.Options{MaxEntries: c.Backlog})
	w.keys = w.set.Gate("key")
	var err error
	if w.source, err = newSource(w.set, c); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range []*resource{&w.source.closed, &w.source.frames} {
		r.client.Transport.(*http.Transport).DialContext = w.dial
	}
	if w.link, err = w.source.open(w.rec, c); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// request records a request, and fails the test if that takes any time. It returns whether the caller is closed.
func (w *world) request(id string) bool {
	w.t.Helper()
	began := time.Now()
	var c gate.Callers
	c.Add(w.keys, id)
	v := w.set.Check(&c)
	w.rec.Record(&c, v, record.Request{Resource: "/"})
	if took := time.Since(began); took != 0 {
		w.t.Fatalf("a request was held up for %v", took)
	}
	return v.Closed
}

// wantClosed asks the server about callers.
func (w *world) wantClosed(when string, closed map[string]bool) {
	w.t.Helper()
	synctest.Wait()
	for id, want := range closed {
		if got := w.keys.Closed(id); got != want {
			w.t.Errorf("%s: got %s closed %v, want %v", when, id, got, want)
		}
	}
}

// conserve fails the test if a request is not accounted for.
func (w *world) conserve() record.Stats {
	w.t.Helper()
	s := w.link.Stats().Requests
	if s.Accepted != s.Acked+s.DroppedTotal()+s.Unknown+s.Queued {
		w.t.Fatalf("accepted %d ≠ acked %d + dropped %v + unknown %d + queued %d", s.Accepted, s.Acked, s.Dropped, s.Unknown, s.Queued)
	}
	return s
}

// counted returns how many requests an analyzer counts of each caller: a frame that is there twice counts once.
func (w *world) counted() (byID map[string]uint64, total uint64) {
	w.t.Helper()
	type number struct {
		producer  schemas.ProducerID
		partition int
		seq       uint64
	}
	seen := map[number]bool{}
	byID = map[string]uint64{}
	for p := range w.kafka.Size(requests) {
		for _, r := range w.kafka.Records(requests, p) {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				w.t.Fatal(err)
			}
			if n := (number{f.Producer, p, f.Seq}); !seen[n] {
				seen[n] = true
				for i := range f.Entries {
					byID[f.Entries[i].ID] += uint64(f.Entries[i].Count)
					total += uint64(f.Entries[i].Count)
				}
			}
		}
	}
	return byID, total
}

// pass lets virtual time pass, and whoever wakes in it finish.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// owner writes decisions to partition 0 as an analyzer does.
type owner struct {
	k          *kafkaiotest.Kafka
	epoch, seq uint64
}

func (o *owner) write(b []byte, err error) {
	if err != nil {
		panic(err)
	}
	o.k.Append(decisions, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: b})
}

func (o *owner) claim() {
	o.write(pb.AppendClaim(nil, &schemas.Claim{Epoch: o.epoch, Nonce: 1}))
}

func (o *owner) beat() {
	o.seq++
	o.write(pb.AppendHeartbeat(nil, &schemas.Heartbeat{Epoch: o.epoch, Seq: o.seq, Time: time.Now().UnixNano()}))
}

// decide closes a key for d, or opens it if d is 0.
func (o *owner) decide(id string, d time.Duration) {
	o.seq++
	now := time.Now()
	o.write(pb.AppendDecision(nil, &schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(d).UnixNano(),
		Epoch: o.epoch, Seq: o.seq,
	}))
}

package kafkalink

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

const awayPartitions = 4

// server is a web server with a link of default size to a broker behind a network, all in a synctest bubble: kafka-go and
// the broker are real, the network is in memory.
type server struct {
	t       *testing.T
	network *network
	broker  *embedded.Broker
	direct  *kafkaio.Client // past the weather
	set     *gate.Set
	ips     *gate.Gate
	keys    *gate.Gate
	rec     *record.Recorder
	handler http.Handler
	link    *Link
	client  *kafkaio.Client // of the link

	asked    int    // requests
	baseHeap uint64 // in use before there were a Set, a Recorder and a Link
	baseGo   int    // goroutines, likewise
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, network: &network{}}
	b, err := embedded.Start(embedded.Options{
		Listen: "127.0.0.1:9092", Cluster: []kfake.Opt{kfake.ListenFn(s.network.Listen)},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.broker = b
	s.direct = kafkaio.New(kafkaio.Config{Brokers: []string{"127.0.0.1:9092"}, Dial: s.network.DialContext})
	if _, err := s.direct.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), awayPartitions)...); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	s.baseHeap, s.baseGo = heapInUse(), runtime.NumGoroutine()

	logger := slog.New(slog.DiscardHandler)
	s.set, s.rec = gate.New(gate.Options{Logger: logger}), record.New(record.Options{Responses: true})
	s.ips, s.keys = s.set.Gate("ip"), s.set.Gate("key")
	s.handler = gatehttp.New(gatehttp.Options{
		Set: s.set, Recorder: s.rec, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil), gatehttp.Header("key", "X-Api-Key")},
	})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	s.client = kafkaio.New(kafkaio.Config{Brokers: []string{"127.0.0.1:9092"}, Dial: s.network.dial})
	s.link = newLink(s.set, s.rec, Config{Log: s.client, Logger: logger})
	return s
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep what is in them for one
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// run runs the link until the func that is returned is called, which says how long the end took.
func (s *server) run() (stop func() time.Duration) {
	began := time.Now()
	s.link.start()
	s.t.Cleanup(s.link.Close)
	if took := time.Since(began); took != 0 {
		s.t.Errorf("the start was held up for %v", took)
	}
	return func() time.Duration {
		began := time.Now()
		s.link.Close()
		return time.Since(began)
	}
}

// ask makes one request to the server's handler, and asks everything else that a server may ask on a request's way. It
// fails the test if any of it takes time.
func (s *server) ask(key string) int {
	s.t.Helper()
	began := time.Now()
	s.asked++
	addr := netip.AddrFrom4([4]byte{10, byte(s.asked >> 16), byte(s.asked >> 8), byte(s.asked)})
	r := httptest.NewRequest(http.MethodGet, "/items", nil)
	r.RemoteAddr = addr.String() + ":80"
	r.Header.Set("X-Api-Key", key)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r) // finds callers, checks, records the arrival and the end

	_, _ = s.keys.Closed(key), s.ips.ClosedAddr(addr)
	var c gate.Callers
	c.AddAddr(s.ips, addr)
	_ = s.set.Check(&c)
	_, _, _ = s.set.Status(), s.link.Stats(), s.rec.Stats()
	if took := time.Since(began); took != 0 {
		s.t.Fatalf("a request was held up for %v", took)
	}
	return w.Code
}

// conserve fails the test if a request is not accounted for.
func (s *server) conserve() record.Stats {
	s.t.Helper()
	st := s.rec.Stats()
	if st.Accepted != st.Acked+st.DroppedTotal()+st.Unknown+st.Queued {
		s.t.Fatalf("accepted %d ≠ acked %d + dropped %v + unknown %d + queued %d",
			st.Accepted, st.Acked, st.Dropped, st.Unknown, st.Queued)
	}
	return st
}

// load asks for some time, a hundred times a second: half of it one flood, half callers that are new each time.
func (s *server) load(d time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pass(10 * time.Millisecond) {
		key := "flood"
		if s.asked%2 == 0 {
			key = fmt.Sprint("key-", s.asked)
		}
		s.ask(key)
		if s.asked%1000 == 0 {
			s.conserve()
		}
	}
}

// burst records n requests of as many callers at once: more than there is room for.
func (s *server) burst(n int) {
	s.t.Helper()
	began := time.Now()
	for i := range n {
		var c gate.Callers
		c.Add(s.keys, fmt.Sprint("burst-", s.asked, "-", i))
		s.rec.Record(&c, s.set.Check(&c), record.Request{Resource: "/burst"})
	}
	s.asked++
	if took := time.Since(began); took != 0 {
		s.t.Fatalf("a burst was held up for %v", took)
	}
}

// logged returns how many requests the log holds, each frame counted once, and shows them to see.
func (s *server) logged(see func(e *schemas.Entry)) (sum uint64) {
	s.t.Helper()
	type frame struct {
		producer schemas.ProducerID
		seq      uint64
	}
	for p := range awayPartitions {
		seen := map[frame]bool{}
		for next := int64(0); ; {
			b, err := s.direct.Fetch(s.t.Context(), kafkaio.FetchRequest{Topic: "floodgate.requests", Partition: p, Offset: next})
			if err != nil {
				s.t.Fatal(err)
			}
			if len(b.Records) == 0 {
				break
			}
			next = b.Next
			for _, r := range b.Records {
				var f schemas.Frame
				if err := f.Decode(r.Value); err != nil {
					s.t.Fatal(err)
				}
				misplaced := slices.ContainsFunc(f.Entries, func(e schemas.Entry) bool {
					return e.Kind != schemas.KindCanary && schemas.Partition(schemas.DefaultPartitionKey().Hash(e.Kind, e.ID), awayPartitions) != p
				})
				// A bit has flipped in the number of the partition. Its analyzer rejects the entries, and the link has sent the frame again.
				if id := (frame{f.Producer, f.Seq}); !misplaced && !seen[id] {
					seen[id] = true
					for _, e := range f.Entries {
						if e.Kind != schemas.KindCanary {
							sum += uint64(e.Count)
							see(&e)
						}
					}
				}
			}
		}
	}
	return sum
}

// close ends what newServer started. A goroutine that is left fails the test: synctest waits for all of them.
func (s *server) close() {
	s.client.Close()
	s.direct.Close()
	_ = s.broker.Close()
}

// The broker is down at start, a black hole, slow, or dead after warm-up. Nothing that a request does takes
// any time, memory and goroutines stay bounded, every request is accounted for, and when the weather clears all goes on.
func TestNoRequestWaitsWhateverTheNetworkDoes(t *testing.T) {
	for _, w := range []weather{refused, hole, mute, trickle} {
		for _, when := range []string{"at start", "after warm-up"} {
			if when == "at start" && w != hole && !testenv.IsLong() {
				continue
			}
			t.Run(w.String()+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { away(t, w, when == "at start") })
			})
		}
	}
}

func away(t *testing.T, w weather, atStart bool) {
	t.Helper()
	const maxMemory = 16 << 20
	const maxGoroutines = 32 * awayPartitions // with the broker's, and connections that are being given up
	s := newServer(t)
	if atStart {
		s.network.set(w)
	}
	stop := s.run()
	s.load(3 * time.Second)
	s.network.set(w)
	var bound uint64
	crowd := 0
	for range 3 {
		s.load(5 * time.Second)
		s.burst(20_000)
		pass(15 * time.Second)
		st := s.conserve()
		crowd = max(crowd, runtime.NumGoroutine()-s.baseGo)
		used := heapInUse()
		bound = max(bound, used-min(s.baseHeap, used))
		switch {
		case w == trickle && st.Acked == 0:
			t.Errorf("got %+v, want something to get through a slow network", st)
		case w != trickle && s.link.Stats().Connected:
			t.Error("got a link that is up, want one that knows that it is down")
		}
	}
	st := s.conserve()
	dials := s.network.dialled()
	t.Logf("at most %.1f MiB and %d goroutines more than before, %d dials; %+v", float64(bound)/(1<<20), crowd, dials, st)
	if bound := 10 * awayPartitions * 63; dials > bound { // a few a second of each partition's two, for 63 s
		t.Errorf("got %d dials, want at most %d: whoever is in trouble is not to be knocked at", dials, bound)
	}
	if bound > maxMemory || crowd > maxGoroutines {
		t.Errorf("got %d bytes and %d goroutines more than before, want at most %d and %d", bound, crowd, maxMemory, maxGoroutines)
	}
	if w != trickle && st.DroppedTotal() == 0 {
		t.Error("nothing was dropped: the test did not fill anything")
	}

	s.network.set(fair)
	pass(time.Minute)
	if st := s.conserve(); st.Queued != 0 || !s.link.Stats().Connected {
		t.Errorf("got %+v, connected %v a minute after it cleared up, want nothing queued and a link that is up", st, s.link.Stats().Connected)
	}
	acked := s.conserve().Acked
	s.ask("last")
	pass(time.Second)
	if st := s.conserve(); st.Acked != acked+4 { // two callers, an arrival and an end each
		t.Errorf("got %d more acknowledged, want 4", st.Acked-acked)
	}
	if took := stop(); took > DefaultDrain {
		t.Errorf("the end took %v, want at most %v", took, DefaultDrain)
	}
	st = s.conserve()
	if n := s.logged(func(*schemas.Entry) {}); n < st.Acked || n > st.Acked+st.Unknown {
		t.Errorf("got %d requests in the log, want the %d acknowledged and at most %d unknown", n, st.Acked, st.Unknown)
	}
	s.close()
}

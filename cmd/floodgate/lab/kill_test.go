//go:build lab

package lab

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

var killCycles = flag.Int("kill.cycles", 20, "how often TestKillMinus9 kills the analyzer")

// killRules counts everything: nobody reaches the limit, so that each count is the caller's whole truth.
const killRules = `
version: 1
rules:
  - {name: all, callers: key, limit: 1000000000000, window: 8760h, algorithm: fixed, count_blocked: true}
`

// runningRules are more of killRules, for requests that run, and for callers that share a capacity. They are in shadow mode: whom they
// close no oracle says. What they keep must be the same whatever happened to its owners.
const runningRules = `
  - {name: tokens, callers: key, measure: cost, limit: 3000, window: 10s, algorithm: fixed, charge: arrival, mode: shadow,
     hold: {estimate: 5, longest: 30s}}
  - {name: flights, callers: key, measure: in_flight, limit: 100, hold: {longest: 10s}, mode: shadow}
  - {name: shared, callers: key, capacity: 2000, window: 1s, mode: shadow}
`

const (
	killPartitions = 4
	killCallers    = 500
	killFrame      = 200   // entries in a frame
	killEntries    = 5_000 // that an analyzer is sent before it is killed, at least
)

// generator sends frames as a server would whose link is told now and then that a produce may have failed: it then sends
// the same frame again. It keeps the truth.
type generator struct {
	t          testing.TB
	client     *kafkaio.Client
	topic      string // of requests
	rnd        *rand.Rand
	producer   schemas.ProducerID
	partitions int
	names      [][]string // callers by partition
	seq        []uint64
	truth      map[string]int64
	entries    int
	duplicates int
	busy       time.Duration
	favour     time.Duration          // in each such span of time one caller of each partition sends a fifth of all; 0 is none
	sent       func(e *schemas.Entry) // called for each arrival, in log order; may be nil
	responds   bool                   // responses are sent, too
	running    [][]schemas.Entry      // by partition: responses that are to come
}

func newGenerator(t testing.TB, broker, topic string, seed uint64) *generator {
	t.Helper()
	g := &generator{
		t: t, client: kafkaio.New(kafkaio.Config{Brokers: strings.Split(broker, ",")}), topic: topic, rnd: rand.New(rand.NewPCG(seed, 0)),
		truth: make(map[string]int64),
	}
	t.Cleanup(g.client.Close)
	g.spread(killPartitions, schemas.ProducerID{1, 2, 3})
	return g
}

// spread makes it a producer for so many partitions.
func (g *generator) spread(partitions int, producer schemas.ProducerID) {
	g.producer, g.partitions = producer, partitions
	g.names, g.seq, g.running = make([][]string, partitions), make([]uint64, partitions), make([][]schemas.Entry, partitions)
	for i := range killCallers {
		id := fmt.Sprintf("caller-%04d", i)
		p := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), partitions)
		g.names[p] = append(g.names[p], id)
	}
}

// send sends one frame to each partition.
func (g *generator) send(ctx context.Context) {
	began := time.Now()
	for p := range g.partitions {
		now := time.Now().UnixNano()
		g.seq[p]++
		f := schemas.Frame{
			Producer: g.producer, Seq: g.seq[p], Flushed: now, Partitions: uint32(g.partitions),
			Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
		}
		for range killFrame {
			e := schemas.Entry{Time: now, Kind: "key", ID: g.caller(p, now), Count: 1 + g.rnd.Uint32N(9), Blocked: g.rnd.IntN(4) == 0}
			g.truth[e.ID] += int64(e.Count)
			if g.sent != nil {
				g.sent(&e)
			}
			if g.responds && !e.Blocked {
				g.begin(p, &e)
			}
			f.Entries = append(f.Entries, e)
		}
		f.Entries = append(f.Entries, g.ended(p, now)...)
		value, err := f.AppendTo(nil)
		if err != nil {
			g.t.Fatal(err)
		}
		times := 1
		if g.rnd.IntN(50) == 0 {
			times = 2
			g.duplicates++
		}
		for range times {
			g.produce(ctx, p, kafkaio.Message{Time: now, Value: value})
		}
		g.entries += killFrame
	}
	g.busy += time.Since(began)
}

// begin takes note of requests that run from now on. Every second one has a response, which is sent within three seconds.
func (g *generator) begin(p int, arrival *schemas.Entry) {
	if g.rnd.IntN(4) == 0 {
		arrival.Declared = int64(arrival.Count) * (1 + g.rnd.Int64N(10))
	}
	arrival.Arrived = int64(arrival.Count) * schemas.Tick(arrival.Time)
	if g.rnd.IntN(2) == 0 {
		return
	}
	response := *arrival
	response.Response, response.Cost = true, g.rnd.Int64N(100)
	response.Time += g.rnd.Int64N(int64(3 * time.Second))
	g.running[p] = append(g.running[p], response)
}

// ended returns responses of requests that have ended by now, as many as a frame has arrivals at most.
func (g *generator) ended(p int, now int64) (responses []schemas.Entry) {
	g.running[p] = slices.DeleteFunc(g.running[p], func(e schemas.Entry) bool {
		if e.Time > now || len(responses) == killFrame {
			return false
		}
		responses = append(responses, e)
		return true
	})
	return responses
}

// caller returns who sends an entry to a partition now.
func (g *generator) caller(p int, now int64) string {
	names := g.names[p]
	if g.favour > 0 && g.rnd.IntN(5) == 0 {
		return names[int(now/int64(g.favour))%len(names)]
	}
	return names[g.rnd.IntN(len(names))]
}

// produce sends until it is acknowledged: with the broker alive, a failure is an ambiguous one.
func (g *generator) produce(ctx context.Context, p int, m kafkaio.Message) {
	for {
		_, err := g.client.Produce(ctx, g.topic, p, m)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			g.t.Fatalf("produce: %v", err)
		}
		g.duplicates++
	}
}

// sendUntilReady sends until the analyzer at url decides.
func (g *generator) sendUntilReady(ctx context.Context, url string) {
	for {
		g.send(ctx)
		if _, status := processtest.Get(ctx, url+"/readyz"); status == 200 {
			return
		}
		if ctx.Err() != nil {
			g.t.Fatalf("analyzer not ready: %v", ctx.Err())
		}
	}
}

// killRun is where and how often analyzers are killed.
type killRun struct {
	broker  string
	suffix  string // of topics and group, so that runs on one broker don't meet
	session string
	cycles  int
}

// TestKillMinus9 kills a real analyzer again and again while a real broker in another process takes a stream of frames,
// some of them twice. In the end the store holds what the generator sent, to the unit.
func TestKillMinus9(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	broker := start(t, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "log"), "--min-session-timeout", "1s").
		WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	killRun{broker: broker, session: "2s", cycles: *killCycles}.run(t)
}

// TestKillMinus9OnApacheKafka is the same on the real broker, whose shortest session is three times as long.
func TestKillMinus9OnApacheKafka(t *testing.T) {
	broker := os.Getenv("FLOODGATE_KAFKA")
	if broker == "" {
		t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
	}
	killRun{broker: broker, suffix: fmt.Sprintf(".kill-%x", rand.Uint64()), session: "6s", cycles: max(1, *killCycles/4)}.run(t)
}

func (k killRun) run(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(path, []byte(killRules+runningRules), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := newGenerator(t, k.broker, "floodgate.requests"+k.suffix, seed)
	g.responds = true
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	p, url := k.analyze(t, dir, path, 0)
	started := time.Now()
	found, levels := 0.0, 0
	for i := range k.cycles {
		g.sendUntilReady(ctx, url)
		for at := time.Now().Add(time.Duration(100+g.rnd.IntN(500)) * time.Millisecond); time.Now().Before(at); {
			g.send(ctx)
		}
		metrics, _ := processtest.Get(ctx, url+"/metrics")
		found += processtest.MetricSum(metrics, "floodgate_duplicates_total")
		if processtest.MetricSum(metrics, "floodgate_pool_level") > 0 {
			levels++
		}
		p.Kill()
		p, url = k.analyze(t, dir, path, i+1)
	}
	rate := float64(g.entries) / time.Since(started).Seconds()
	awaitCaughtUp(ctx, t, g.client, url, g.topic)
	metrics, _ := processtest.Get(ctx, url+"/metrics")
	found += processtest.MetricSum(metrics, "floodgate_duplicates_total")
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, p.Text())
	}
	t.Logf("%d kills, %.0f entries/s, %d duplicates sent, %.0f found by processes before they died, a level in %d lives", k.cycles, rate, g.duplicates, found, levels)
	if g.entries < k.cycles*killEntries {
		t.Errorf("load: got %d entries in %d lives, want %d in each", g.entries, k.cycles, killEntries)
	}
	if levels == 0 {
		t.Error("got no level of the shared capacity in any life, want some")
	}
	if found < 1 {
		t.Errorf("duplicates: got none found, want at least one of %d", g.duplicates)
	}
	compareStores(t, filepath.Join(dir, "counts"), g.truth)
	out, err := runCommand("audit", "--brokers", k.broker, "--rules", path, "--data", filepath.Join(dir, "counts"), "--topic-name", "requests="+g.topic,
		"--topic-name", "state=floodgate.state"+k.suffix, "--topic-name", "control=floodgate.control"+k.suffix)
	if err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
}

// analyze starts the analyzer's n-th life and returns it with its address. Every fourth joins the dead one's consumer
// group, and waits until the session there has run out; the others take a new one and begin at once: a group's offset is
// nothing but a measure of lag.
func (k killRun) analyze(t testing.TB, dir, rules string, n int) (*processtest.Program, string) {
	t.Helper()
	p := start(t, k.args(dir, rules, n-n/4)...)
	return p, "http://" + p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
}

// args are those of an analyzer in the group of a number.
func (k killRun) args(dir, rules string, group int) []string {
	args := []string{
		"analyze", "--brokers", k.broker, "--rules", rules, "--data", filepath.Join(dir, "counts"), "--listen", "127.0.0.1:0", "--api-listen", "",
		"--session-timeout", k.session, "--checkpoint", "50ms", "--group", fmt.Sprint("floodgate", k.suffix, ".", group),
	}
	for _, topic := range []string{"requests", "decisions", "state", "rejects", "control", "events"} {
		args = append(args, "--topic-name", topic+"="+"floodgate."+topic+k.suffix)
	}
	return args
}

// awaitCaughtUp waits until the analyzer at url has counted all that the log holds.
func awaitCaughtUp(ctx context.Context, t testing.TB, client *kafkaio.Client, url, topic string) {
	t.Helper()
	processtest.Eventually(t, time.Minute, "analyzer at the log's end", func() bool {
		metrics, _ := processtest.Get(ctx, url+"/metrics")
		sum := int64(0)
		for p := range killPartitions {
			_, end, err := client.Range(ctx, topic, p)
			if err != nil {
				return false
			}
			sum += end
		}
		return processtest.MetricSum(metrics, "floodgate_next_offset") == float64(sum)
	})
}

// compareStores compares what the stores below dir hold with the truth, to the unit.
func compareStores(t testing.TB, dir string, truth map[string]int64) {
	t.Helper()
	set, err := rules.Parse("test", []byte(killRules))
	if err != nil {
		t.Fatal(err)
	}
	partitions := openStores(t, dir, set)
	held := make(map[string]int64)
	for _, sp := range partitions {
		sp.fold.View().Rows(sp.fold.LogTime(), func(r fold.Row) bool { held[r.ID] += r.Total; return true })
	}
	wrong := 0
	for id, want := range truth {
		if held[id] != want {
			wrong++
			t.Errorf("%s: got %d in the store, want %d as generated", id, held[id], want)
		}
		delete(held, id)
	}
	if len(held) > 0 || wrong > 0 {
		t.Errorf("store: %d of %d callers wrong, %d never sent", wrong, len(truth), len(held))
	}
}

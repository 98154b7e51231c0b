//go:build lab

package lab

import (
	"encoding/binary"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// Fault row 8 in full is
//
//	go test -tags lab ./cmd/floodgate/lab -run TestAmbiguous -v -ambiguous.entries 1000000 -ambiguous.one-in 100
var (
	ambiguousEntries = flag.Int("ambiguous.entries", 200_000, "requests recorded while some produces are ambiguous")
	ambiguousOneIn   = flag.Int("ambiguous.one-in", 20, "of so many produces one is ambiguous")
	ambiguousSeed    = flag.Uint64("ambiguous.seed", 0, "which produces; 0 is a random one")
)

// ambiguousRules count everything, close some for good, and decide all the time.
const ambiguousRules = `
version: 1
rules:
  - {name: all, callers: key, limit: 1000000000000, window: 8760h, algorithm: fixed, count_blocked: true}
  - {name: quota, callers: key, limit: 100, window: 8760h, algorithm: fixed, count_blocked: true}
  - {name: second, callers: key, limit: 2, window: 1s, algorithm: fixed, mode: shadow}
`

const ambiguousQuota = 100

// injector makes produces to a topic ambiguous: the records are appended, and the answer is that it took too long.
type injector struct {
	rnd   *rand.Rand // the broker's goroutine's, like all to mu
	of    int        // so many produces are one that is ambiguous
	topic string
	last  kmsg.Request // the broker asks several times about one
	fate  bool         // what it was told

	mu       sync.Mutex
	produces int  // guarded by mu
	injected int  // guarded by mu: produces whose answer was lost
	records  int  // guarded by mu: in those
	over     bool // guarded by mu: no more
}

func (i *injector) fault() kfake.Fault {
	return kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: i.topic, Err: kerr.RequestTimedOut, Count: -1, When: i.pick}
}

// pick chooses one of so many.
func (i *injector) pick(r kmsg.Request) bool {
	if r == i.last {
		return i.fate
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.produces++
	i.last, i.fate = r, !i.over && (i.rnd.IntN(i.of) == 0 || i.produces == 10) // one at least
	req, ok := r.(*kmsg.ProduceRequest)
	if !ok || !i.fate {
		return false
	}
	i.injected++
	for _, topic := range req.Topics {
		if topic.Topic != i.topic { // the client sends to other topics in the same request
			continue
		}
		for _, p := range topic.Partitions {
			i.records += int(binary.BigEndian.Uint32(p.Records[57:])) // RecordCount of a batch of version 2
		}
	}
	return true
}

func (i *injector) counts() (produces, injected, records int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.produces, i.injected, i.records
}

// end ends it: whoever is about to stop need not send again what was ambiguous.
func (i *injector) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
}

// TestAmbiguousProduces is fault row 8: of the produces to both topics, some are appended and said to have failed. Server
// and analyzer send them again. The analyzer finds as many duplicate frames as were made, a reader of the decisions as
// many duplicate records, and nothing is counted or applied twice.
func TestAmbiguousProduces(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	seed := *ambiguousSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: go test -tags lab ./cmd/floodgate/lab -run %s -ambiguous.seed %d", seed, t.Name(), seed)
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	names := schemas.DefaultTopicNames()
	requests := &injector{of: *ambiguousOneIn, topic: names.Requests, rnd: rand.New(rand.NewPCG(seed, 1))}
	decisions := &injector{of: *ambiguousOneIn, topic: names.Decisions, rnd: rand.New(rand.NewPCG(seed, 2))}
	b.Cluster().Fault(requests.fault(), decisions.fault())

	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(path, []byte(ambiguousRules), 0o600); err != nil {
		t.Fatal(err)
	}
	a := start(t, "analyze", "--brokers", b.Addr(), "--rules", path, "--data", filepath.Join(dir, "counts"), "--listen", "127.0.0.1:0",
		"--partitions", fmt.Sprint(killPartitions), "--session-timeout", "2s")
	url := "http://" + a.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	processtest.AwaitReady(t, url, 200, "ok")

	set, rec := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)}), record.New(record.Options{MaxEntries: 1 << 17})
	var mu sync.Mutex
	applied := make(map[decisionID]int)
	link, err := kafkalink.Open(set, rec, kafkalink.Config{
		Brokers: []string{b.Addr()}, Canary: -1, Backlog: 1 << 20, Logger: slog.New(slog.DiscardHandler),
		Observe: func(d schemas.Decision, _ time.Time) {
			mu.Lock()
			defer mu.Unlock()
			applied[decisionID{d.Partition, d.Epoch, d.Seq}]++
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	truth := recordRandomly(t, set, rec, rand.New(rand.NewPCG(seed, 3)))
	client := kafkaio.New(kafkaio.Config{Brokers: []string{b.Addr()}})
	t.Cleanup(client.Close)
	awaitCaughtUp(t.Context(), t, client, url, names.Requests)
	processtest.Eventually(t, 30*time.Second, "those over the quota closed, and nobody else", func() bool {
		for id, n := range truth {
			if set.Gate("key").Closed(id) != (n >= ambiguousQuota) {
				return false
			}
		}
		return true
	})
	decisions.end()
	_, _, made := decisions.counts()
	var found, distinct int
	processtest.Eventually(t, 30*time.Second, "each ambiguous produce sent again", func() bool {
		found, distinct = duplicateDecisions(t, client, names.Decisions)
		return found >= made
	})
	metrics, _ := processtest.Get(t.Context(), url+"/metrics")
	link.Close()
	if code := a.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("analyzer: got exit code %d, want 0:\n%s", code, a.Text())
	}

	produces, injected, records := requests.counts()
	t.Logf("%d requests: %d of %d produces ambiguous", *ambiguousEntries, injected, produces)
	if found := int(processtest.MetricSum(metrics, "floodgate_duplicates_total")); found != records {
		t.Errorf("requests: got %d duplicate frames found, want the %d that were made", found, records)
	}
	for _, name := range []string{"floodgate_sequence_gaps", "floodgate_too_old_total", "floodgate_lost_records_total"} {
		if n := processtest.MetricSum(metrics, name); n != 0 {
			t.Errorf("%s: got %v, want none", name, n)
		}
	}
	produces, injected, records = decisions.counts()
	t.Logf("decisions: %d of %d produces ambiguous, %d of %d records twice; a gate applied %d", injected, produces, found, distinct+found, len(applied))
	if found != records {
		t.Errorf("decisions: got %d duplicate records found, want the %d that were made", found, records)
	}
	for id, times := range applied {
		if times > 1 {
			t.Errorf("decision %+v: applied %d times, want once", id, times)
		}
	}
	rulesSet, err := rules.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	compareBest(t, client, names.Requests, names.Control, rulesSet, []string{filepath.Join(dir, "counts")}, truth)
}

// recordRandomly records requests at a pace that leaves nothing out, and returns how many of whom.
func recordRandomly(t *testing.T, set *gate.Set, rec *record.Recorder, rnd *rand.Rand) map[string]int64 {
	t.Helper()
	keys, truth := set.Gate("key"), make(map[string]int64)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range *ambiguousEntries {
		if i%2000 == 0 {
			<-tick.C
		}
		id := fmt.Sprint("caller-", rnd.IntN(20_000))
		if i%100 == 0 {
			id = fmt.Sprint("offender-", i/100%10)
		}
		truth[id]++
		var c gate.Callers
		c.Add(keys, id)
		rec.Record(&c, gate.Verdict{}, record.Request{Resource: "/"}) // by a server that lets everybody in
	}
	processtest.Eventually(t, 2*time.Minute, "all acknowledged", func() bool { return rec.Stats().Queued == 0 })
	if s := rec.Stats(); s.Acked != uint64(*ambiguousEntries) {
		t.Fatalf("recorder: got %+v, want all %d acknowledged", s, *ambiguousEntries)
	}
	return truth
}

// duplicateDecisions counts the records of the topic that readers refuse as copies, and the others.
func duplicateDecisions(t *testing.T, client *kafkaio.Client, topic string) (copies, distinct int) {
	t.Helper()
	for p := range killPartitions {
		var fence schemas.Fence
		claims := make(map[uint64]bool)
		next, end, err := client.Range(t.Context(), topic, p)
		for err == nil && next < end {
			var b kafkaio.Batch
			if b, err = client.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Partition: p, Offset: next, MaxBytes: 4 << 20}); err != nil {
				break
			}
			for _, r := range b.Records {
				if readCopy(t, &fence, claims, r.Value) {
					copies++
				} else {
					distinct++
				}
			}
			next = b.Next
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return copies, distinct
}

// readCopy reads a record as a gate does, and reports whether it was there before.
func readCopy(t *testing.T, fence *schemas.Fence, claims map[uint64]bool, value []byte) bool {
	t.Helper()
	r, err := pb.Decode(value)
	switch {
	case err != nil:
		t.Fatal(err)
	case r.Claim != nil:
		earlier := claims[r.Claim.Nonce]
		claims[r.Claim.Nonce] = true
		fence.Claim(r.Claim.Epoch)
		return earlier
	case r.Heartbeat != nil:
		return !fence.Heartbeat(r.Heartbeat.Epoch, r.Heartbeat.Seq)
	}
	return !fence.Decision(r.Decision.Epoch, r.Decision.Seq)
}

// The count of records that pick relies on is where Kafka's protocol guide says.
func TestRecordCountOfABatch(t *testing.T) {
	b := serveKafka(t, embedded.Options{})
	all := &injector{of: 1, topic: "t", rnd: rand.New(rand.NewPCG(0, 0))}
	seen := all.fault()
	seen.Observe = true
	b.Cluster().Fault(seen)
	client := kafkaio.New(kafkaio.Config{Brokers: []string{b.Addr()}})
	t.Cleanup(client.Close)
	if _, err := client.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3, 100} {
		if _, err := client.Produce(t.Context(), "t", 0, make([]kafkaio.Message, n)...); err != nil {
			t.Fatal(err)
		}
	}
	if produces, injected, records := all.counts(); produces != 3 || injected != 3 || records != 104 {
		t.Errorf("got %d produces, %d picked, %d records in them, want 3, 3 and 104", produces, injected, records)
	}
}

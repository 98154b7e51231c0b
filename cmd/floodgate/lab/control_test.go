//go:build lab

package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// controlPartitions is one for each of two analyzers.
const controlPartitions = 2

// night is two analyzers with an API, in processes of their own, whose topic of control has trouble.
type night struct {
	t         *testing.T
	brokers   string
	names     schemas.TopicNames
	client    *kafkaio.Client
	args      []string // of every analyzer
	dir       string
	token     string
	analyzers []*processtest.Program
	urls      []string
	apis      []string
	seq       uint64 // of frames
	written   byte   // records
}

// TestTheTopicOfControlHasTrouble deletes the topic of what people decide, makes it anew, empty and longer than before, deletes its
// old records, and writes what this version cannot read. Counts go on, who writes is told why that fails, what was in force stays so,
// and nothing that was acknowledged is lost without a sign.
func TestTheTopicOfControlHasTrouble(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		beginNight(t, serveKafka(t, embedded.Options{MinSession: time.Second}).Addr()).pass()
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		t.Parallel()
		brokers := os.Getenv("FLOODGATE_KAFKA")
		if brokers == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		beginNight(t, brokers).pass()
	})
}

func beginNight(t *testing.T, brokers string) *night {
	t.Helper()
	suffix, dir := fmt.Sprintf(".night-%x", rand.Uint64()), t.TempDir()
	n := &night{t: t, brokers: brokers, token: filepath.Join(dir, "token"), client: kafkaio.New(kafkaio.Config{Brokers: strings.Split(brokers, ",")})}
	t.Cleanup(n.client.Close)
	n.names = schemas.TopicNames{
		Requests: "floodgate.requests" + suffix, Decisions: "floodgate.decisions" + suffix, State: "floodgate.state" + suffix,
		Rejects: "floodgate.rejects" + suffix, Control: "floodgate.control" + suffix, Events: "floodgate.events" + suffix,
	}
	out, err := runCommand("token", "alice", "operate", "--write", n.token)
	if err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte(regexp.MustCompile(`(?m)^alice.*$`).FindString(out)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.args = []string{
		"analyze", "--brokers", brokers, "--rules", rulesFile(t), "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--api-tokens", tokens,
		"--partitions", fmt.Sprint(controlPartitions), "--checkpoint", "50ms", "--snapshot", "1s", "--group", "floodgate" + suffix, "--topic-name", "requests=" + n.names.Requests,
		"--topic-name", "decisions=" + n.names.Decisions, "--topic-name", "state=" + n.names.State, "--topic-name", "rejects=" + n.names.Rejects, "--topic-name", "control=" + n.names.Control,
		"--topic-name", "events=" + n.names.Events, "--session-timeout", "1m", // they sleep for less: the metrics of a new owner begin at 0
	}
	n.dir, n.analyzers = dir, make([]*processtest.Program, controlPartitions)
	n.urls, n.apis = make([]string, controlPartitions), make([]string, controlPartitions)
	n.beginAll()
	return n
}

// begin starts an analyzer.
func (n *night) begin(i int) {
	n.t.Helper()
	a := start(n.t, append(slices.Clone(n.args), "--data", filepath.Join(n.dir, fmt.Sprint(i)))...)
	n.analyzers[i] = a
	n.urls[i] = "http://" + a.WaitFor(`msg=listening address=(\S+)`, time.Minute)
	n.apis[i] = "http://" + a.WaitFor(`listening for the API.* address=(\S+)`, time.Minute)
}

// awaitOwners waits until each analyzer owns a partition.
func (n *night) awaitOwners() {
	n.t.Helper()
	for i := range n.urls {
		processtest.Eventually(n.t, time.Minute, "an owner in each analyzer", func() bool {
			_, status := processtest.Get(n.t.Context(), n.urls[i]+"/readyz")
			return status == 200 && n.owned(i) == 1
		})
	}
}

// owned returns how many partitions an analyzer has.
func (n *night) owned(i int) int {
	body, _ := processtest.Get(n.t.Context(), n.urls[i]+"/metrics")
	return strings.Count(body, "floodgate_next_offset{")
}

// metric adds a metric up over both analyzers.
func (n *night) metric(name string) (sum float64) {
	for _, url := range n.urls {
		body, _ := processtest.Get(n.t.Context(), url+"/metrics")
		sum += processtest.MetricSum(body, "floodgate_"+name)
	}
	return sum
}

func (n *night) awaitMetric(name string, ok func(float64) bool) {
	n.t.Helper()
	got, as := 0.0, false
	defer func() {
		if !as {
			n.t.Logf("%s: got %v", name, got)
		}
	}()
	processtest.Eventually(n.t, time.Minute, name, func() bool { got = n.metric(name); return ok(got) })
	as = true
}

// act does something by hand over the API of an analyzer.
func (n *night) act(i int, args ...string) (string, error) {
	return runCommand(append(args, "--api", n.apis[i], "--token-file", n.token)...)
}

// closeByHand closes a caller of each partition, each over the analyzer that may not own it, until that is acknowledged.
func (n *night) closeByHand(what string) (keys []string) {
	n.t.Helper()
	for p := range controlPartitions {
		key := keyFrom(what, p, controlPartitions)
		keys = append(keys, key)
		var out string
		var err error
		processtest.Eventually(n.t, time.Minute, what+" acknowledged", func() bool {
			out, err = n.act(p, "close", "key:"+key, "--for", "1h", "--reason", "ticket 4711")
			return err == nil
		})
		if !strings.Contains(out, "is closed until") && !strings.Contains(out, "accepted") {
			n.t.Errorf("%s: got %q, want it closed", key, out)
		}
	}
	return keys
}

// keyFrom is keyIn for a key that begins so.
func keyFrom(key string, partition, partitions int) string {
	for ; schemas.Partition(schemas.DefaultPartitionKey().Hash("key", key), partitions) != partition; key += "x" {
	}
	return key
}

// wantClosed waits until all analyzers say that exactly these callers are closed by hand.
func (n *night) wantClosed(when string, keys ...string) {
	n.t.Helper()
	for i := range n.apis {
		out, as := "", false
		defer func() {
			if !as {
				n.t.Logf("%s: want %v closed by hand, got:\n%s", when, keys, out)
				for _, a := range n.analyzers {
					n.t.Log(a.Text())
				}
			}
		}()
		processtest.Eventually(n.t, time.Minute, when, func() bool {
			var err error
			out, err = n.act(i, "decisions")
			for _, key := range keys {
				if err != nil || !regexp.MustCompile(`\| key:`+key+` +\| by hand +\| enforce`).MatchString(out) {
					return false
				}
			}
			return strings.Count(out, "by hand") == len(keys)
		})
		as = true
	}
}

// wantCounting sends until a caller of each partition is closed by the rule, which has a limit of 5.
func (n *night) wantCounting(what string) {
	n.t.Helper()
	for p := range controlPartitions {
		key := keyFrom(what, p, controlPartitions)
		for range 5 {
			n.seq++
			now := time.Now().UnixNano()
			f := schemas.Frame{
				Producer: schemas.ProducerID{8}, Seq: n.seq, Flushed: now, Partitions: controlPartitions, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
				Entries: []schemas.Entry{{Time: now, Kind: "key", ID: key, Count: 1}},
			}
			value, err := f.AppendTo(nil)
			if err != nil {
				n.t.Fatal(err)
			}
			if _, err := n.client.Produce(n.t.Context(), n.names.Requests, p, kafkaio.Message{Time: now, Value: value}); err != nil {
				n.t.Fatal(err)
			}
		}
		processtest.Eventually(n.t, time.Minute, what+": counts go on", func() bool {
			out, err := n.act(p, "decisions")
			return err == nil && regexp.MustCompile(`\| key:`+key+` +\| r +\| enforce`).MatchString(out)
		})
	}
}

// record returns a record that closes a caller, as whoever may write the topic writes it.
func (n *night) record(key string) kafkaio.Message {
	n.t.Helper()
	n.written++
	now := time.Now()
	value, err := pb.AppendControl(nil, &schemas.Control{
		ID: schemas.ControlID{n.written, 200}, Time: now.UnixNano(), Author: "bert", Reason: "restored from a copy", Action: schemas.ControlClose,
		Caller: schemas.Caller{Kind: "key", ID: key}, Until: now.Add(time.Hour).UnixNano(),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return kafkaio.Message{Time: now.UnixNano(), Value: value}
}

func (n *night) write(messages ...kafkaio.Message) {
	n.t.Helper()
	if _, err := n.client.Produce(n.t.Context(), n.names.Control, 0, messages...); err != nil {
		n.t.Fatal(err)
	}
}

// remove deletes the topic of control.
func (n *night) remove() {
	n.t.Helper()
	admin := &kafka.Client{Addr: kafka.TCP(strings.Split(n.brokers, ",")...), Timeout: 20 * time.Second}
	r, err := admin.DeleteTopics(n.t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{n.names.Control}})
	if err != nil || r.Errors[n.names.Control] != nil {
		n.t.Fatalf("delete topic: %v, %+v", err, r)
	}
	processtest.Eventually(n.t, time.Minute, "topic deleted", func() bool {
		_, err := n.client.Partitions(n.t.Context(), n.names.Control)
		return errors.Is(err, kafkaio.ErrNoTopic)
	})
}

// makeAnew makes it again.
func (n *night) makeAnew() {
	n.t.Helper()
	processtest.Eventually(n.t, time.Minute, "topic made anew", func() bool {
		_, err := n.client.EnsureTopics(n.t.Context(), kafkaio.Specs(n.names, controlPartitions)...)
		return err == nil
	})
	processtest.Eventually(n.t, time.Minute, "topic there", func() bool {
		_, _, err := n.client.Range(n.t.Context(), n.names.Control, 0)
		return err == nil
	})
}

// deleteBefore deletes its records before an offset, as retention does.
func (n *night) deleteBefore(offset int64) {
	n.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(n.brokers, ",")...))
	if err != nil {
		n.t.Fatal(err)
	}
	defer client.Close()
	request, topic, partition := kmsg.NewPtrDeleteRecordsRequest(), kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	partition.Offset = offset
	topic.Topic, topic.Partitions = n.names.Control, append(topic.Partitions, partition)
	request.Topics, request.TimeoutMillis = append(request.Topics, topic), 20_000
	r, err := request.RequestWith(n.t.Context(), client)
	if err != nil || r.Topics[0].Partitions[0].ErrorCode != 0 {
		n.t.Fatalf("delete records: %v, %+v", err, r)
	}
}

// asleep does something while no analyzer looks, and no fetch waits any more: its answer waits to be read.
func (n *night) asleep(f func()) {
	n.t.Helper()
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for _, a := range n.analyzers {
			if err := a.Cmd.Process.Signal(s); err != nil {
				n.t.Fatal(err)
			}
		}
		if s == syscall.SIGSTOP {
			time.Sleep(4 * kafkaio.DefaultMaxWait)
			f()
		}
	}
}

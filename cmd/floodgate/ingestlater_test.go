package main

import (
	"fmt"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestIngestBeforeItsTopic starts ingest in the order of the README, with no topic yet, creates the topic as the help says,
// and adds partitions. All lines count, also those that were there before anybody had looked.
func TestIngestBeforeItsTopic(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	client := kafkaio.New(kafkaio.Config{Brokers: []string{b.Addr()}})
	t.Cleanup(client.Close)
	in := begin(t, "ingest", "--brokers", b.Addr(), "--topic", "nginx", "--format", "combined", "--listen", "127.0.0.1:0", "--session-timeout", "2s")
	url := "http://" + in.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	processtest.AwaitReady(t, url, 503, "topic nginx: no such topic")
	in.WaitFor(`level=WARN msg="nothing to read: topic is missing, or hidden by ACLs; looking again" topic=nginx`, 10*time.Second)
	if out, err := runCommand("topics", "--brokers", b.Addr(), "--create", "--partitions", "2", "--topic", "nginx"); err == nil {
		t.Errorf("got %s, want ingest's 4 partitions found wrong", out)
	}
	ship := func(partitions int) {
		t.Helper()
		for p := range partitions {
			line := fmt.Appendf(nil, `203.0.113.%d - - [%s] "GET / HTTP/1.1" 200 5 "-" "-"`, p, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
			if _, err := client.Produce(t.Context(), "nginx", p, kafkaio.Message{Time: time.Now().UnixNano(), Value: line}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ship(2)
	positions := func(want float64) func() bool {
		return func() bool {
			metrics, _ := processtest.Get(t.Context(), url+"/metrics")
			return processtest.MetricSum(metrics, "floodgate_ingest_position") == want && processtest.MetricSum(metrics, "floodgate_ingest_lag") == 0
		}
	}
	processtest.Eventually(t, 30*time.Second, "two lines read", positions(2))
	processtest.AwaitReady(t, url, 200, "ok")
	admin := kafka.Client{Addr: kafka.TCP(b.Addr())}
	more := &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: "nginx", Count: 6}}}
	if r, err := admin.CreatePartitions(t.Context(), more); err != nil || r.Errors["nginx"] != nil {
		t.Fatalf("got %v, %+v", err, r)
	}
	ship(6)
	processtest.Eventually(t, 30*time.Second, "lines of new partitions read", positions(8))
	processtest.AwaitReady(t, url, 200, "ok")
	metrics, _ := processtest.Get(t.Context(), url+"/metrics")
	for p := range 6 {
		if !matches(fmt.Sprintf(`floodgate_ingest_lag\{source="kafka:nginx/%d"\} 0`, p), metrics) {
			t.Errorf("partition %d has no lag", p)
		}
	}
	if _, err := in.End(); err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

// TestTopicsCreatesThoseOfOthers, too, when they are named, and leaves their settings to the broker.
func TestTopicsCreatesThoseOfOthers(t *testing.T) {
	b := serveKafka(t, embedded.Options{})
	base := []string{"topics", "--brokers", b.Addr(), "--partitions", "3"}
	out, err := runCommand(append(base, "--create", "--topic", "nginx", "--topic", "caddy", "--output", "json")...)
	if err != nil || !matches(`"created":\["floodgate.requests","floodgate.decisions","floodgate.state","floodgate.rejects","floodgate.control","floodgate.events","nginx","caddy"\]`, out) {
		t.Errorf("got %v,\n%s", err, out)
	}
	client := kafkaio.New(kafkaio.Config{Brokers: []string{b.Addr()}})
	defer client.Close()
	if n, err := client.Partitions(t.Context(), "caddy"); err != nil || n != 3 {
		t.Errorf("got %d partitions, %v, want 3", n, err)
	}
	if out, err := runCommand(append(base, "--topic", "nginx")...); err != nil || !matches("7 topics, all as they should be", out) {
		t.Errorf("check: got %v,\n%s", err, out)
	}
	if out, err := runCommand(append(base, "--topic", "none")...); err == nil || !matches(`none +\| topic +\| missing, or hidden by ACLs`, out) {
		t.Errorf("check of a missing one: got %v,\n%s", err, out)
	}
	for _, wrong := range [][]string{{"--topic", "floodgate.state"}, {"--topic", "a", "--topic", "a"}, {"--topic", ""}} {
		if _, err := runCommand(append(base, wrong...)...); err == nil || !matches("--topic: got", err.Error()) {
			t.Errorf("%q: got %v, want it refused", wrong, err)
		}
	}
}

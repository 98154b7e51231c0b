package main

import (
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// sendTo sends one request of a key to its partition of so many.
func sendTo(t *testing.T, broker, key string, partitions int, seq uint64) {
	t.Helper()
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	defer client.Close()
	processtest.Eventually(t, 20*time.Second, "the topic of requests", func() bool { // a broker that lost it has none for a moment
		_, _, err := client.Range(t.Context(), "floodgate.requests", partitions-1)
		return err == nil
	})
	processtest.SendFrame(t, client, &schemas.Frame{Producer: schemas.ProducerID{8}, Seq: seq, Partitions: uint32(partitions)}, key, 1)
}

// TestMorePartitionsAreOwnedWithoutARestart: servers send to all partitions that there are. An analyzer that stays with
// the old number refuses what they send.
func TestMorePartitionsAreOwnedWithoutARestart(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	a, url := beginAnalyze(t, b.Addr(), t.TempDir()) // 2 partitions
	processtest.AwaitReady(t, url, 200, "ok")
	admin := kafka.Client{Addr: kafka.TCP(b.Addr())}
	var more kafka.CreatePartitionsRequest
	for _, topic := range []string{"requests", "decisions", "state"} {
		more.Topics = append(more.Topics, kafka.TopicPartitionsConfig{Name: "floodgate." + topic, Count: 3})
	}
	if r, err := admin.CreatePartitions(t.Context(), &more); err != nil || r.Errors["floodgate.requests"] != nil {
		t.Fatalf("got %v, %+v", err, r)
	}
	processtest.Eventually(t, 40*time.Second, "the third partition owned", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return matches(`floodgate_partition_state\{partition="2",state="running"\} 1`, metrics)
	})
	sendTo(t, b.Addr(), processtest.KeyIn(2, 3), 3, 1)
	processtest.Eventually(t, 10*time.Second, "a request of the third partition counted", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return matches(`floodgate_requests_total\{partition="2"\} 1`, metrics)
	})
	processtest.AwaitReady(t, url, 200, "ok")
	if _, err := a.End(); err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

// TestTopicsThatAreCreatedAgainAreCounted: a cluster that lost everything, or an operator who deleted the topics.
func TestTopicsThatAreCreatedAgainAreCounted(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	options := embedded.Options{Listen: testenv.FreeAddress(t), MinSession: time.Second} // in memory only
	b := serveKafka(t, options)
	a, url := beginAnalyze(t, b.Addr(), t.TempDir())
	processtest.AwaitReady(t, url, 200, "ok")
	sendTo(t, b.Addr(), "before", 2, 1)
	processtest.Eventually(t, 10*time.Second, "a request counted", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_requests_total") == 1
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = serveKafka(t, options)
	a.WaitFor(`level=WARN msg="the topic of requests has changed, starting a new analyzer"`, 60*time.Second)
	processtest.AwaitReady(t, url, 200, "ok")
	sendTo(t, b.Addr(), "after", 2, 1)
	processtest.Eventually(t, 10*time.Second, "a request of the new topic counted", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_requests_total") == 1
	})
	if _, err := a.End(); err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

// One analyzer more than there are partitions stands by: it is ready, or a rolling update would wait for it for ever. It
// takes over when the other is gone.
func TestASpareAnalyzerIsReadyAndTakesOver(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	first, url1 := beginAnalyze(t, b.Addr(), t.TempDir(), "--partitions", "1")
	processtest.AwaitReady(t, url1, 200, "ok")
	second, url2 := beginAnalyze(t, b.Addr(), t.TempDir(), "--partitions", "1")
	second.WaitFor(`msg="joined group"`, 20*time.Second)
	processtest.AwaitReady(t, url2, 200, "ok")
	processtest.AwaitReady(t, url1, 200, "ok")
	owned := func(url string) float64 {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_partition_state")
	}
	processtest.Eventually(t, 20*time.Second, "one owner", func() bool { return owned(url1)+owned(url2) == 1 })
	owner, spare, url := first, second, url2
	if owned(url2) == 1 {
		owner, spare, url = second, first, url1
	}
	if _, err := owner.End(); err != nil {
		t.Fatal(err)
	}
	spare.WaitFor(`msg=owner partition=0 state=running`, 20*time.Second)
	processtest.AwaitReady(t, url, 200, "ok")
	sendTo(t, b.Addr(), "k", 1, 1)
	processtest.Eventually(t, 10*time.Second, "a request counted by the spare one", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_requests_total") == 1
	})
}

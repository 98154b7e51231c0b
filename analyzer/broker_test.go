package analyzer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// truncate deletes all records of a partition of requests before an offset, as retention does; −1 is all of them.
func (c *cluster) truncate(partition int, before int64) {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = c.names.Requests
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = int32(partition), before
	topic.Partitions = append(topic.Partitions, part)
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 5000
	resp, err := req.RequestWith(c.t.Context(), client)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		c.t.Fatalf("delete records: %v, %+v", err, resp)
	}
}

// recreate deletes the topic of requests and makes it again.
func (c *cluster) recreate() {
	c.t.Helper()
	c.remove()
	c.makeAnew()
}

// remove deletes the topic of requests.
func (c *cluster) remove() {
	c.t.Helper()
	transport := &kafka.Transport{Dial: c.dial}
	defer transport.CloseIdleConnections()
	admin := &kafka.Client{Addr: kafka.TCP(c.brokers...), Timeout: 5 * time.Second, Transport: transport}
	r, err := admin.DeleteTopics(c.t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{c.names.Requests}})
	if err != nil || r.Errors[c.names.Requests] != nil {
		c.t.Fatalf("delete topic: %v, %v", err, r.Errors)
	}
	deadline := time.Now().Add(20 * time.Second)
	for ; ; time.Sleep(20 * time.Millisecond) {
		if _, err = c.client.Partitions(c.t.Context(), c.names.Requests); errors.Is(err, kafkaio.ErrNoTopic) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("topic is still there: %v", err)
		}
	}
}

// makeAnew makes the topic of requests.
func (c *cluster) makeAnew() {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for ; ; time.Sleep(20 * time.Millisecond) {
		_, err := c.client.EnsureTopics(c.t.Context(), kafkaio.Specs(c.names, clusterPartitions)...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal(err)
		}
	}
}

// snapshots waits until each owner has written another complete snapshot that began after now.
func (m *member) snapshots(t *testing.T) {
	t.Helper()
	before := m.Stats()
	deadline := time.Now().Add(20 * time.Second)
	for done := false; !done; time.Sleep(5 * time.Millisecond) {
		done = true
		for i, s := range m.Stats() {
			done = done && s.Snapshots >= before[i].Snapshots+2
		}
		if time.Now().After(deadline) {
			t.Fatalf("no snapshots within 20s: %+v", m.Stats())
		}
	}
}

// TestAMonthlyQuotaSurvivesTheLossOfStoreAndLog: all that is left of a month is the snapshot and the last records.
func TestAMonthlyQuotaSurvivesTheLossOfStoreAndLog(t *testing.T) {
	t.Parallel()
	onEachBroker(t, func(t *testing.T, c *cluster) {
		t.Helper()
		c.rules = mustRules(t, "version: 1\nrules:\n  - {name: all, callers: key, limit: 1000000, window: month}\n")
		dir := t.TempDir()
		m := c.join(dir)
		for range 20 {
			c.send(100)
		}
		c.await(m)
		m.snapshots(t)
		for p := range clusterPartitions {
			_, end, err := c.client.Range(t.Context(), c.names.Requests, p)
			if err != nil {
				t.Fatal(err)
			}
			c.truncate(p, end)
		}
		c.send(100) // after the snapshot, and not in it
		c.await(m)
		c.leave(m)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		m = c.join(dir)
		c.await(m)
		t.Logf("counted %v after it was started with nothing", time.Since(began).Round(time.Millisecond))
		for _, s := range m.Stats() {
			if s.Fold.Lost != 0 {
				t.Errorf("partition %d: got %d records lost, want none", s.Partition, s.Fold.Lost)
			}
		}
		c.leave(m)
		c.compare(map[int]string{0: dir, 1: dir, 2: dir, 3: dir})
	})
}

// TestRetentionThatOvertakesAStoppedAnalyzer: what is missing is said to the record, and the rest of the counts stays.
func TestRetentionThatOvertakesAStoppedAnalyzer(t *testing.T) {
	t.Parallel()
	onEachBroker(t, func(t *testing.T, c *cluster) {
		t.Helper()
		dir := t.TempDir()
		m := c.join(dir)
		c.send(100)
		c.await(m)
		c.leave(m)
		kept := maps.Clone(c.truth)
		for range 5 { // of which nobody will ever know
			c.send(100)
		}
		gap := make(map[int]int64)
		for p := range clusterPartitions {
			_, end, err := c.client.Range(t.Context(), c.names.Requests, p)
			if err != nil {
				t.Fatal(err)
			}
			gap[p] = 5
			c.truncate(p, end)
		}
		c.truth = kept
		c.send(100)
		m = c.join(dir)
		c.await(m)
		for _, s := range m.Stats() {
			if got := int64(s.Fold.Lost); got != gap[s.Partition] {
				t.Errorf("partition %d: got a gap of %d records reported, want %d", s.Partition, got, gap[s.Partition])
			}
		}
		c.leave(m)
		c.compare(map[int]string{0: dir, 1: dir, 2: dir, 3: dir})
		if aside, err := filepath.Glob(filepath.Join(dir, "*.broken-*")); err != nil || len(aside) != 0 {
			t.Errorf("moved aside: got %v, %v, want no store: they were good", aside, err)
		}
	})
}

// replaced is a log handler that takes note of when owners were found to be of no use and replaced, by partition.
type replaced struct {
	slog.Handler // a discarding one

	mu sync.Mutex
	at map[int64]time.Time // guarded by mu
}

func (r *replaced) Enabled(context.Context, slog.Level) bool { return true }
func (r *replaced) WithAttrs([]slog.Attr) slog.Handler       { return r }

func (r *replaced) Handle(_ context.Context, rec slog.Record) error {
	if rec.Message != "owner failed, starting another" {
		return nil
	}
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "partition" {
			r.mu.Lock()
			r.at[a.Value.Int64()] = rec.Time
			r.mu.Unlock()
		}
		return true
	})
	return nil
}

// wait waits until all partitions were noticed, and returns when the last was; at the latest a little after the deadline. Until then an
// owner may read the new topic from where it was in the old one, and be at its end.
func (r *replaced) wait(deadline time.Time) (at time.Time) {
	for {
		r.mu.Lock()
		at = slices.MaxFunc(append(slices.Collect(maps.Values(r.at)), time.Time{}), time.Time.Compare)
		all := len(r.at) == clusterPartitions
		r.mu.Unlock()
		if all {
			return at
		}
		if now := time.Now(); now.After(deadline) {
			return now
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestATopicThatIsCreatedAgainIsNoticedSoon is fault row 20 on virtual time: however long the topic was away, and however much
// the new one holds, each owner knows two seconds after it is there again, at the latest.
func TestATopicThatIsCreatedAgainIsNoticedSoon(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 20))
	longest := time.Duration(0)
	for _, away := range []time.Duration{0, 300 * time.Millisecond, 10 * time.Second} {
		for _, more := range []int{1, 9, 30} { // shorter, one record shorter, and longer than the log was
			t.Run(fmt.Sprint(away, "/", more), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newVirtualCluster(t)
					noticed := &replaced{Handler: slog.DiscardHandler, at: make(map[int64]time.Time)}
					c.logger = slog.New(noticed)
					dir := t.TempDir()
					m := c.join(dir)
					for range 10 {
						c.send(100)
					}
					c.await(m)
					time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Second))))
					c.remove()
					time.Sleep(away)
					c.makeAnew()
					c.truth, c.producer = make(map[string]int64), c.producer+1
					c.seq = [clusterPartitions]uint64{}
					since := time.Now()
					for range more {
						c.send(100)
					}
					took := noticed.wait(since.Add(2 * time.Second)).Sub(since)
					if took > 2*time.Second {
						t.Errorf("noticed after %v, want at most 2s", took)
					}
					longest = max(longest, took)
					c.await(m)
					c.leave(m)
					c.compare(map[int]string{0: dir, 1: dir, 2: dir, 3: dir})
				})
			})
		}
	}
	t.Logf("noticed after %v at the latest", longest)
}

// TestATopicThatIsCreatedAgainUnderARunningAnalyzer is noticed, and counted from nothing.
func TestATopicThatIsCreatedAgainUnderARunningAnalyzer(t *testing.T) {
	testenv.Long(t)
	for name, more := range map[string]int{"shorter": 1, "longer": 30} {
		t.Run(name, func(t *testing.T) {
			onEachBroker(t, func(t *testing.T, c *cluster) {
				t.Helper()
				dir := t.TempDir()
				noticed := &replaced{Handler: slog.DiscardHandler, at: make(map[int64]time.Time)}
				c.logger = slog.New(noticed)
				m := c.join(dir)
				for range 10 {
					c.send(100)
				}
				c.await(m)
				c.recreate()
				began := time.Now()
				c.truth, c.producer = make(map[string]int64), c.producer+1
				c.seq = [clusterPartitions]uint64{}
				for range more {
					c.send(100)
				}
				noticed.wait(began.Add(5 * time.Second))
				c.await(m)
				took := time.Since(began)
				t.Logf("counted anew %v after the topic was there again", took.Round(time.Millisecond))
				if took > 10*time.Second { // 2 s until it is detected, on a machine that has nothing else to do
					t.Errorf("took %v, want at most 10s", took)
				}
				c.leave(m)
				c.compare(map[int]string{0: dir, 1: dir, 2: dir, 3: dir})
			})
		})
	}
}

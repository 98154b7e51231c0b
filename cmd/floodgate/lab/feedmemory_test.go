//go:build lab

package lab

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// readersOfFeed is how many read the feed of BenchmarkFeedMemory.
const readersOfFeed = 8

// BenchmarkFeedMemory measures the memory of a sidecar that knows many closed addresses, with all the evidence that an analyzer gives, while
// eight readers follow its feed: bar 250 MiB. An operation is a closure; run it with -benchtime 1000000x.
func BenchmarkFeedMemory(b *testing.B) {
	const partitions = 4
	broker := start(b, "broker", "--listen", "127.0.0.1:0").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	defer client.Close()
	if _, err := client.EnsureTopics(b.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), partitions)...); err != nil {
		b.Fatal(err)
	}
	for p := range partitions {
		closeAddresses(b, client, int32(p), b.N/partitions)
	}
	socket := filepath.Join(b.TempDir(), "feed")
	b.ResetTimer()
	began := time.Now()
	side := start(b, "sidecar", "--brokers", broker, "--listen", "127.0.0.1:0", "--feed-listen", "unix:"+socket)
	url := "http://" + side.WaitFor(`msg=listening address=(\S+)`, 20*time.Second)
	side.WaitFor(`msg="listening for gates in other servers"`, 20*time.Second)
	idle, _, _ := resident(side)
	var reading, started sync.WaitGroup
	started.Add(readersOfFeed)
	for range readersOfFeed {
		reading.Go(func() { readFeed(b, socket, b.N/partitions*partitions, started.Done) })
	}
	processtest.AwaitReady(b, url, http.StatusOK, "")
	b.ReportMetric(time.Since(began).Seconds(), "s-ready")
	started.Wait()
	b.ReportMetric(time.Since(began).Seconds(), "s-read")
	b.StopTimer()
	time.Sleep(5 * time.Second) // the collector, and what gives memory back to the system, work in the background
	now, peak, _ := resident(side)
	for name, bytes := range map[string]int64{"MiB-first": idle, "MiB": now, "MiB-most": peak} {
		b.ReportMetric(float64(bytes)/(1<<20), name)
	}
	_ = side.Stop(syscall.SIGTERM)
	reading.Wait()
	b.ReportMetric((side.Cmd.ProcessState.UserTime() + side.Cmd.ProcessState.SystemTime()).Seconds(), "s-cpu")
}

// closeAddresses does as the owner of a partition of decisions does: it claims the partition, closes n addresses for an hour, and sends a
// heartbeat that names the first decision.
func closeAddresses(b *testing.B, client *kafkaio.Client, partition int32, n int) {
	b.Helper()
	owner := kafkaio.NewAppender(client, kafkaio.AppenderConfig{Topic: schemas.DefaultTopicNames().Decisions, Partition: int(partition)})
	now := time.Now().UnixNano()
	write := func(values ...[]byte) {
		messages := make([]kafkaio.Message, len(values))
		for i := range values {
			messages[i] = kafkaio.Message{Time: now, Value: values[i]}
		}
		if _, err := owner.Append(b.Context(), messages...); err != nil {
			b.Fatal(err)
		}
	}
	value := func(v []byte, err error) []byte {
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
	write(value(pb.AppendClaim(nil, &schemas.Claim{Partition: partition, Epoch: 1, Nonce: 1, Owner: "test"})))
	var values [][]byte
	for i := range n {
		d := closedAddress(partition, i, now)
		values = append(values, value(pb.AppendDecision(nil, &d)))
		if len(values) == 4096 || i == n-1 {
			write(values...)
			values = values[:0]
		}
	}
	write(value(pb.AppendHeartbeat(nil, &schemas.Heartbeat{Partition: partition, Epoch: 1, Seq: uint64(n + 1), Time: now, From: 1})))
}

// closedAddress returns the decision about the i-th address of a partition.
func closedAddress(partition int32, i int, now int64) schemas.Decision {
	at := now - int64(i)*997_331
	return schemas.Decision{
		Rule: "per-ip", RuleVersion: 0x9d2c_5680_1f3a_77c1, Mode: schemas.ModeEnforce, Partition: partition, Epoch: 1, Seq: uint64(i + 1),
		Caller:  schemas.Caller{Kind: schemas.KindIP, ID: fmt.Sprintf("%d.%d.%d.%d", 100+partition, 100+i>>16, i>>8&255, i&255)},
		CloseAt: at, Until: at + int64(time.Hour),
		Evidence: schemas.Evidence{
			Count: 100 + int64(i%7), Limit: 100, Window: int64(time.Minute), WindowStart: at - at%int64(time.Minute),
			Rate: float64(i%5_000_000) / 1000, AsOfOffset: 1_000_000 + int64(i), AsOfTime: at, Lag: 4_123_000 + int64(i%4096)*311,
			Expected: float64(i%911) / 9100, Bound: float64(i%911) / 4100,
		},
	}
}

// readFeed follows a feed until it ends, and calls started when everything in force has come.
func readFeed(b *testing.B, socket string, want int, started func()) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		b.Error(err)
		started()
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET "+feed.PathClosed+" HTTP/1.0\r\n\r\n") // of version 1.0, so that it is not in chunks
	decisions := 0
	for lines := bufio.NewScanner(c); lines.Scan(); {
		switch line := lines.Bytes(); {
		case bytes.HasPrefix(line, []byte(`{"type":"decision"`)):
			decisions++
		case bytes.HasPrefix(line, []byte(`{"type":"current"`)):
			if decisions != want {
				b.Errorf("got %d decisions, want %d", decisions, want)
			}
			started()
		}
	}
}

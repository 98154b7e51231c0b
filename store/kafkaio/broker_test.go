package kafkaio

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startBroker runs an embedded broker for one test.
func startBroker(t *testing.T, o embedded.Options) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// startClient makes a client for one test.
func startClient(t *testing.T, c Config) *Client {
	t.Helper()
	client := New(c)
	t.Cleanup(client.Close)
	return client
}

// withTopic is a broker with the topic "t" of some partitions, and a client.
func withTopic(t *testing.T, partitions int, c Config) (*embedded.Broker, *Client) {
	t.Helper()
	b := startBroker(t, embedded.Options{})
	c.Brokers = b.Addrs()
	client := startClient(t, c)
	makeTopic(t, client, "t", partitions)
	return b, client
}

func makeTopic(t *testing.T, c *Client, name string, partitions int) {
	t.Helper()
	if _, err := c.EnsureTopics(t.Context(), TopicSpec{Name: name, Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
}

// produce appends values, a batch each, and returns the offset of the first.
func produce(t *testing.T, c *Client, topic string, partition int, values ...string) int64 {
	t.Helper()
	first := int64(-1)
	for i, v := range values {
		base, err := c.Produce(t.Context(), topic, partition, Message{Time: time.Now().UnixNano(), Value: []byte(v)})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = base
		}
	}
	return first
}

// fetchAll reads a partition from an offset to its end.
func fetchAll(t *testing.T, c *Client, topic string, partition int, from int64) []Record {
	t.Helper()
	_, end, err := c.Range(t.Context(), topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	var all []Record
	for from < end {
		b, err := c.Fetch(t.Context(), FetchRequest{Topic: topic, Partition: partition, Offset: from, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b.Records...)
		from = b.Next
	}
	return all
}

func valuesOf(records []Record) []string {
	var s []string
	for _, r := range records {
		s = append(s, string(r.Value))
	}
	return s
}

// within fails the test unless f returns in time.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > d {
		t.Errorf("%s: got %v, want within %v", what, took, d)
	}
}

// weather is a network whose faults a test turns on and off. It begins fair.
type weather struct {
	hole   atomic.Bool  // nothing arrives any more, on no connection
	flip   atomic.Int64 // flips a bit of the n-th byte read from now on; 0 flips none
	refuse atomic.Bool  // no new connections
	dials  atomic.Int64
}

type weatherConn struct {
	net.Conn
	w *weather
}

func (w *weather) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.dials.Add(1)
	if w.refuse.Load() {
		return nil, fmt.Errorf("dial %s: refused by the weather: %w", address, net.ErrClosed)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &weatherConn{Conn: conn, w: w}, nil
}

func (c *weatherConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for c.w.hole.Load() && err == nil { // swallow what arrives: the connection is open and silent
		n, err = c.Conn.Read(b)
	}
	if at := c.w.flip.Load(); at > 0 && n > 0 {
		if at <= int64(n) && c.w.flip.CompareAndSwap(at, 0) {
			b[at-1] ^= 0x10
		} else {
			c.w.flip.Add(int64(-n))
		}
	}
	return n, err
}

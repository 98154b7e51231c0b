package embedded_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"go.uber.org/goleak"
)

// TestMain can also be a broker process, for tests that kill one.
func TestMain(m *testing.M) {
	if dir := os.Getenv("FLOODGATE_TEST_BROKER_DIR"); dir != "" {
		if err := serve(dir, os.Getenv("FLOODGATE_TEST_BROKER_LISTEN")); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// serve runs a broker until the process is killed, and says on stdout where.
func serve(dir, listen string) error {
	b, err := embedded.Start(embedded.Options{Dir: dir, Listen: listen})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, b.Addr()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // ends with the parent, should nobody kill this one
		return err
	}
	return b.Close()
}

// process is a broker in a process of its own.
type process struct {
	cmd  *exec.Cmd
	addr string
}

func startProcess(t *testing.T, dir, listen string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "FLOODGATE_TEST_BROKER_DIR="+dir, "FLOODGATE_TEST_BROKER_LISTEN="+listen)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // open for as long as we live
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.addr = strings.TrimSpace(line)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says that it was killed
}

func client(t *testing.T, addr string) *kafkaio.Client {
	t.Helper()
	c := kafkaio.New(kafkaio.Config{Brokers: []string{addr}, Timeout: 2 * time.Second})
	t.Cleanup(c.Close)
	return c
}

func start(t *testing.T, o embedded.Options) *embedded.Broker {
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

func read(t *testing.T, c *kafkaio.Client, partition int) []string {
	t.Helper()
	_, end, err := c.Range(t.Context(), "t", partition)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for next := int64(0); next < end; {
		b, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: "t", Partition: partition, Offset: next, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Records {
			values = append(values, string(r.Value))
		}
		next = b.Next
	}
	return values
}

// TestKilledBrokerKeepsWhatItAcknowledged kills the process under load, ten times, at random moments.
func TestKilledBrokerKeepsWhatItAcknowledged(t *testing.T) {
	testenv.Long(t)
	dir, listen := t.TempDir(), ""
	acked, unknown := make([][]string, 2), make([]map[string]bool, 2)
	for p := range unknown {
		unknown[p] = make(map[string]bool)
	}
	for round := range 10 {
		broker := startProcess(t, dir, listen)
		listen = broker.addr
		c := client(t, broker.addr)
		if _, err := c.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "t", Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		for p := range acked {
			check(t, round, p, read(t, c, p), acked[p], unknown[p])
		}
		var wg sync.WaitGroup
		for p := range acked {
			wg.Go(func() {
				for i := 0; ; i++ {
					value := fmt.Sprintf("%d.%d", round, i)
					_, err := c.Produce(t.Context(), "t", p, kafkaio.Message{Value: []byte(value)})
					switch kafkaio.OutcomeOf(err) {
					case kafkaio.Acked:
						acked[p] = append(acked[p], value)
						continue
					case kafkaio.Unknown:
						unknown[p][value] = true
					}
					return
				}
			})
		}
		select {
		case <-time.After(time.Duration(20+rand.IntN(80)) * time.Millisecond):
		case <-t.Context().Done():
		}
		broker.kill()
		wg.Wait()
	}
	if len(acked[0]) < 100 {
		t.Errorf("got %d messages acknowledged, want a test worth its name", len(acked[0]))
	}
	t.Logf("acknowledged %d and %d, unknown %d and %d", len(acked[0]), len(acked[1]), len(unknown[0]), len(unknown[1]))
}

// check wants all of acked in got, in order, and beside them only what is unknown.
func check(t *testing.T, round, partition int, got, acked []string, unknown map[string]bool) {
	t.Helper()
	i := 0
	for _, value := range got {
		switch {
		case i < len(acked) && value == acked[i]:
			i++
		case !unknown[value]:
			t.Fatalf("round %d, partition %d: got %q, want %d more acknowledged ones", round, partition, value, len(acked)-i)
		}
	}
	if i != len(acked) {
		t.Fatalf("round %d, partition %d: lost %d of %d acknowledged messages, the first is %q", round, partition, len(acked)-i, len(acked), acked[i])
	}
}

// TestRestartKeepsTopicsSettingsAndOffsets closes a broker in good order.
func TestRestartKeepsTopicsSettingsAndOffsets(t *testing.T) {
	dir := t.TempDir()
	b := start(t, embedded.Options{Dir: dir, SyncWrites: true})
	c := client(t, b.Addr())
	specs := kafkaio.Specs(schemas.DefaultTopicNames(), 3)
	if _, err := c.EnsureTopics(t.Context(), specs...); err != nil {
		t.Fatal(err)
	}
	topic := specs[0].Name
	if _, err := c.Produce(t.Context(), topic, 2, kafkaio.Message{Value: []byte("kept")}); err != nil {
		t.Fatal(err)
	}
	commit(t, c, topic, map[int]int64{2: 1})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c = client(t, start(t, embedded.Options{Dir: dir}).Addr())
	if found, err := c.CheckTopics(t.Context(), specs...); err != nil || len(found) != 0 {
		t.Errorf("got %v and %v, want the topics as they were", found, err)
	}
	if got, err := c.Fetch(t.Context(), kafkaio.FetchRequest{Topic: topic, Partition: 2}); err != nil || len(got.Records) != 1 {
		t.Errorf("got %+v and %v, want the record", got, err)
	}
	if got := commit(t, c, topic, nil); got[2] != 1 || got[0] != -1 {
		t.Errorf("got committed offsets %v, want 1 for partition 2", got)
	}
}

// commit joins a group, commits, and returns what was committed before.
func commit(t *testing.T, c *kafkaio.Client, topic string, offsets map[int]int64) map[int]int64 {
	t.Helper()
	g, err := kafkaio.NewGroup(kafkaio.GroupConfig{Client: c, Group: "g", Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	gen, err := g.Next(t.Context())
	for kafkaio.Temporary(err) {
		gen, err = g.Next(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := gen.Commit(offsets); err != nil {
		t.Fatal(err)
	}
	return gen.Committed
}

func TestDirectoryIsServedOnce(t *testing.T) {
	dir := t.TempDir()
	b := start(t, embedded.Options{Dir: dir})
	if other, err := embedded.Start(embedded.Options{Dir: dir}); !errors.Is(err, embedded.ErrLocked) {
		t.Errorf("got %v and %v, want ErrLocked", other, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil { // again
		t.Error(err)
	}
	start(t, embedded.Options{Dir: dir})
}

func TestMemoryIsGoneWithTheBroker(t *testing.T) {
	options := embedded.Options{Listen: testenv.FreeAddress(t)}
	b := start(t, options)
	c := client(t, b.Addr())
	if _, err := c.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, options)
	if _, err := client(t, b.Addr()).Partitions(t.Context(), "t"); !errors.Is(err, kafkaio.ErrNoTopic) {
		t.Errorf("got %v, want ErrNoTopic", err)
	}
}

func TestStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options embedded.Options
		seen    bool // by Check, which opens nothing
	}{
		"no port":                   {embedded.Options{Listen: "127.0.0.1"}, true},
		"a port that is none":       {embedded.Options{Listen: "127.0.0.1:kafka"}, true},
		"a port out of range":       {embedded.Options{Listen: "127.0.0.1:70000"}, true},
		"a taken port":              {embedded.Options{Listen: taken.Addr().String()}, false},
		"several nodes on one port": {embedded.Options{Listen: "127.0.0.1:9092", Nodes: 2}, true},
		"sync without a directory":  {embedded.Options{SyncWrites: true}, true},
		"a file for a directory":    {embedded.Options{Dir: file}, false},
		"a taken port, with a dir":  {embedded.Options{Listen: taken.Addr().String(), Dir: t.TempDir()}, false},
	} {
		if err := c.options.Check(); (err != nil) != c.seen {
			t.Errorf("%s: got %v from Check, want an error: %v", name, err, c.seen)
		}
		if b, err := embedded.Start(c.options); err == nil {
			t.Errorf("%s: got a broker at %s", name, b.Addr())
			b.Close()
		}
	}
}

func TestNodesAndAddrs(t *testing.T) {
	b := start(t, embedded.Options{Nodes: 3})
	addrs := b.Addrs()
	if len(addrs) != 3 || addrs[0] != b.Addr() || b.Cluster() == nil {
		t.Fatalf("got %v and %s", addrs, b.Addr())
	}
	addrs[0] = "changed"
	if b.Addrs()[0] != b.Addr() {
		t.Error("got the broker's own slice")
	}
	for _, addr := range b.Addrs() {
		if err := client(t, addr).CheckBrokers(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseCutsConnections knows, when Close has returned, that nobody is connected any more.
func TestCloseCutsConnections(t *testing.T) {
	b := start(t, embedded.Options{})
	var conns []net.Conn
	for range 20 {
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	if err := client(t, b.Addr()).CheckBrokers(t.Context()); err != nil { // all of them have been accepted by now, or will not be
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for i, conn := range conns {
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d: got %v, want it cut", i, err)
		}
	}
}

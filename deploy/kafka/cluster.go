// Package kafka starts a real Apache Kafka for tests, by kafka.sh, which people use too.
package kafka

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/secure"
)

// Options says which cluster to start. The zero value is one node without authentication.
type Options struct {
	Nodes  int  // 0 is 1
	Secure bool // also listen with authentication; ACLs then limit what a client may do
}

// Cluster is a running Apache Kafka that is stopped when its test ends. One goroutine may use it.
type Cluster struct {
	Brokers []string // of the plain listener, whose clients may do everything

	t    testing.TB
	dir  string
	args []string
	env  []string
}

// Start starts a cluster of the test's own, whose records no other test sees. Without FLOODGATE_KAFKA, which says that an
// Apache Kafka is wanted, or without Java, it skips the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: t.TempDir(), args: []string{"--nodes", strconv.Itoa(max(o.Nodes, 1))}, env: environment(t)}
	if o.Secure {
		c.args = append(c.args, "--secure")
	}
	c.env = append(c.env, "KAFKA_PORT="+strconv.Itoa(testenv.FreePorts(t)))
	t.Cleanup(func() { c.run("stop", c.dir) })
	c.Restart()
	return c
}

// Tool runs one of Kafka's own tools, and returns what it prints. It skips as Start does.
func Tool(t testing.TB, class string, args ...string) string {
	t.Helper()
	c := &Cluster{t: t, env: environment(t)}
	return c.run(append([]string{"tool", class}, args...)...)
}

// environment is that of kafka.sh. It skips the test if no Apache Kafka is wanted.
func environment(t testing.TB) []string {
	t.Helper()
	if os.Getenv("FLOODGATE_KAFKA") == "" {
		t.Skip("FLOODGATE_KAFKA is not set: give host:port of an Apache Kafka, and those tests run that start their own too")
	}
	env := os.Environ()
	if os.Getenv("KAFKA_LIBS") == "" { // the jars are fetched once for all tests: they lie beside the script's own default
		env = append(env, "KAFKA_LIBS="+filepath.Join(os.TempDir(), "kafka-local", "libs"))
	}
	return env
}

// Restart starts the nodes that were killed, and waits until they answer.
func (c *Cluster) Restart() {
	c.t.Helper()
	c.Brokers = strings.Split(c.run(append(append([]string{"start"}, c.args...), c.dir)...), ",")
}

// Kill is kill -9 of one node, counted from 1.
func (c *Cluster) Kill(node int) {
	c.t.Helper()
	c.run("kill", strconv.Itoa(node), c.dir)
}

// As returns how to speak to a secure cluster as one of its users: admin, analyzer, server, ingest, notify, operator or auditor.
func (c *Cluster) As(user, mechanism string) (broker string, o secure.Options) {
	c.t.Helper()
	file := func(name string) string { return filepath.Join(c.dir, "secure", name) }
	address, err := os.ReadFile(file("address"))
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(address)), secure.Options{
		TLS: true, CA: file("ca.pem"), Cert: file("client.pem"), Key: file("client.key"),
		SASL: mechanism, User: user, PasswordFile: file(user + ".password"),
	}
}

// Client returns a client of the plain listener.
func (c *Cluster) Client() *kafkaio.Client {
	client := kafkaio.New(kafkaio.Config{Brokers: c.Brokers})
	c.t.Cleanup(client.Close)
	return client
}

// Login returns a client that is one of the users.
func (c *Cluster) Login(user string) *kafkaio.Client {
	c.t.Helper()
	broker, o := c.As(user, secure.ScramSHA512)
	tls, sasl, err := o.Load()
	if err != nil {
		c.t.Fatal(err)
	}
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker}, TLS: tls, SASL: sasl})
	c.t.Cleanup(client.Close)
	return client
}

// run runs kafka.sh and returns what it prints.
func (c *Cluster) run(args ...string) string {
	c.t.Helper()
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.Command(filepath.Join(filepath.Dir(file), "kafka.sh"), args...) //nolint:gosec // the script beside this file, with words of our tests
	cmd.Env = c.env
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			stderr = string(exit.Stderr)
		}
		c.t.Fatalf("kafka.sh %v: %v\n%s", args, err, stderr)
	}
	return strings.TrimSpace(string(out))
}

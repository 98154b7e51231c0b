package embedded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/509da70d/floodgate/store/filelock"
	"github.com/twmb/franz-go/pkg/kfake"
)

// defaultListen is loopback on any free port.
const defaultListen = "127.0.0.1:0"

// Options says how to start a Broker. The zero value is one broker in memory on a free port of loopback.
type Options struct {
	Dir        string // where records and topics are kept; empty is memory only. One process at a time
	Listen     string // host:port; empty is 127.0.0.1:0. The broker announces this address to clients, so 0.0.0.0 serves loopback only
	SyncWrites bool   // fsync every batch before it is acknowledged; needs Dir
	Nodes      int    // brokers in the cluster, for tests of leadership; 0 is 1. More than one needs a port of 0

	// MinSession is the shortest session timeout that group members may ask for; 0 is 6 s, as on Apache Kafka.
	MinSession time.Duration

	// Cluster is passed to kfake unchanged: TLS, SASL, ACLs, virtual networks.
	Cluster []kfake.Opt
}

// Broker is a running cluster. Its methods are safe for concurrent use.
type Broker struct {
	cluster *kfake.Cluster
	conns   *connections
	addrs   []string
	unlock  func() error
	once    sync.Once
	closed  error
}

// Start listens and serves until Close. With Dir set it first loads the directory. If another process serves the directory,
// the error is ErrLocked.
func Start(o Options) (*Broker, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	conns := &connections{open: make(map[*connection]struct{})}
	opts, err := o.cluster(conns)
	if err != nil {
		return nil, err
	}
	unlock := func() error { return nil }
	if o.Dir != "" {
		if unlock, err = lock(o.Dir); err != nil {
			return nil, fmt.Errorf("lock broker directory: %w", err)
		}
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		_ = unlock() // the cluster's error is the cause
		return nil, fmt.Errorf("start embedded broker: %w", err)
	}
	boundTimes(c)
	slowDeletions(c)
	return &Broker{cluster: c, conns: conns, addrs: c.ListenAddrs(), unlock: unlock}, nil
}

// Check returns what is wrong with the options by themselves. It opens nothing.
func (o *Options) Check() error {
	_, port, err := splitListen(o.Listen)
	switch {
	case err != nil:
		return err
	case o.Nodes > 1 && port != 0:
		return fmt.Errorf("listen: got port %d for %d nodes, want port 0", port, o.Nodes)
	case o.SyncWrites && o.Dir == "":
		return errors.New("sync writes: got no directory, want one")
	}
	return nil
}

// cluster translates the options for kfake.
func (o Options) cluster(conns *connections) ([]kfake.Opt, error) {
	host, port, err := splitListen(o.Listen)
	if err != nil {
		return nil, err
	}
	nodes := max(o.Nodes, 1)
	opts := []kfake.Opt{
		kfake.NumBrokers(nodes),
		kfake.ClusterID(rand.Text()), // of a directory that has one, that
		kfake.DefaultNumPartitions(1),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			_, p, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			l, err := net.Listen(network, net.JoinHostPort(host, p))
			if err != nil {
				return nil, err
			}
			return &listener{Listener: l, of: conns}, nil
		}),
		// Retention runs only if this is set. Topics without retention keep everything.
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "60000"}),
	}
	if port != 0 {
		opts = append(opts, kfake.Ports(port))
	}
	if o.MinSession > 0 {
		opts = append(opts, kfake.GroupMinSessionTimeout(o.MinSession))
	}
	if o.Dir != "" {
		opts = append(opts, kfake.DataDir(o.Dir))
	}
	if o.SyncWrites {
		opts = append(opts, kfake.SyncWrites())
	}
	return append(opts, o.Cluster...), nil
}

// splitListen returns the host and port of a listen address; an empty one is defaultListen.
func splitListen(listen string) (host string, port int, err error) {
	if listen == "" {
		listen = defaultListen
	}
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen: got %q, want host:port: %w", listen, err)
	}
	if port, err = strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen: got port %q, want 0 to 65535", p)
	}
	return host, port, nil
}

// Addr returns the host:port to give to clients: the first broker's.
func (b *Broker) Addr() string { return b.addrs[0] }

// Addrs returns the host:port of every broker.
func (b *Broker) Addrs() []string { return append([]string(nil), b.addrs...) }

// Cluster returns the cluster of kfake, for faults in tests: Fault, ControlKey, MoveTopicPartition.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Close stops the broker. When it returns, all data of a Dir is written, and all connections are cut. Later calls return
// the error of the first one.
func (b *Broker) Close() error {
	b.once.Do(func() {
		b.cluster.Close()
		b.conns.close()
		b.closed = b.unlock()
	})
	return b.closed
}

// ErrLocked says that another broker serves the directory. Test with errors.Is.
var ErrLocked = errors.New("directory is served by another broker")

// lock locks a directory for this process, or returns ErrLocked at once. It creates the directory and its lock file if they are missing.
// Only their owner may read them, because requests name clients.
func lock(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := filelock.Open(filepath.Join(dir, "floodgate.lock"))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

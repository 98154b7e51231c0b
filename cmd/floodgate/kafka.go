package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/secure"
)

// kafkaFlags is the flags of all subcommands that speak to a Kafka cluster.
type kafkaFlags struct {
	brokers    []string
	names      kafkaio.TopicNames
	partitions int
	secure     secure.Options
}

func (k *kafkaFlags) add(flags *pflag.FlagSet) {
	d := kafkaio.DefaultTopicNames()
	flags.StringSliceVar(&k.brokers, "brokers", nil, "Kafka brokers to find the cluster by, `host:port,...`")
	flags.IntVar(&k.partitions, "partitions", 4, "partitions of the topics, where they are created")
	flags.StringVar(&k.names.Requests, "topic-requests", d.Requests, "topic of request frames")
	flags.StringVar(&k.names.Decisions, "topic-decisions", d.Decisions, "topic of decisions")
	flags.StringVar(&k.names.State, "topic-state", d.State, "topic of snapshots")
	flags.StringVar(&k.names.Rejects, "topic-rejects", d.Rejects, "topic of what could not be read")
	flags.StringVar(&k.names.Control, "topic-control", d.Control, "topic of manual decisions")
	k.addSecurity(flags)
}

// addSecurity adds the flags that say how to get in.
func (k *kafkaFlags) addSecurity(flags *pflag.FlagSet) {
	o := &k.secure
	flags.BoolVar(&o.TLS, "tls", false, "speak TLS to the brokers, and verify their certificates and host names")
	flags.StringVar(&o.CA, "tls-ca", "", "PEM `file` of the authorities to trust (default: the system's)")
	flags.StringVar(&o.Cert, "tls-cert", "", "PEM `file` of our own certificate, for brokers that ask; read again for each connection")
	flags.StringVar(&o.Key, "tls-key", "", "PEM `file` of its key")
	flags.StringVar(&o.ServerName, "tls-server-name", "", "`name` to expect in the brokers' certificates (default: the host dialled)")
	flags.StringVar(&o.SASL, "sasl", "", "`mechanism` to log in by: "+secure.Plain+", "+secure.ScramSHA256+" or "+secure.ScramSHA512)
	flags.StringVar(&o.User, "sasl-user", "", "user to log in as")
	flags.StringVar(&o.PasswordFile, "sasl-password-file", "", "`file` with its password; read again for each connection")
	flags.BoolVar(&o.Insecure, "sasl-insecure", false, "allow --sasl without --tls, which shows the password to the network")
}

// addFollower adds the flags of those who create no topics, and use only requests and decisions.
func (k *kafkaFlags) addFollower(flags *pflag.FlagSet) {
	d := kafkaio.DefaultTopicNames()
	k.partitions = 1 // whatever there are
	flags.StringSliceVar(&k.brokers, "brokers", nil, "Kafka brokers to find the cluster by, `host:port,...`")
	flags.StringVar(&k.names.Requests, "topic-requests", d.Requests, "topic of request frames")
	flags.StringVar(&k.names.Decisions, "topic-decisions", d.Decisions, "topic of decisions")
	k.addSecurity(flags)
}

// check returns a usage error if the flags can't work.
func (k *kafkaFlags) check() error {
	if len(k.brokers) == 0 {
		return usagef("--brokers: got none, want at least one host:port")
	}
	for _, b := range k.brokers {
		host, port, err := net.SplitHostPort(b)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || perr != nil || n == 0 {
			return usagef("--brokers: got %q, want host:port", b)
		}
	}
	if k.partitions < 1 || k.partitions > 10_000 {
		return usagef("--partitions: got %d, want 1 to 10000", k.partitions)
	}
	if err := k.secure.Check(); errors.Is(err, secure.ErrPlaintext) {
		return usagef("--sasl: %w; want --tls, or --sasl-insecure if that is meant", err)
	} else if err != nil {
		return usagef("--tls, --sasl: %w", err)
	}
	return nil
}

// client returns a client of the cluster, after reading the files that let it in; nothing connects before its first call.
func (k *kafkaFlags) client() (*kafkaio.Client, error) {
	tls, sasl, err := k.secure.Load()
	if err != nil {
		return nil, fmt.Errorf("prepare the link to Kafka: %w", err)
	}
	return kafkaio.New(kafkaio.Config{Brokers: k.brokers, ClientID: "floodgate", TLS: tls, SASL: sasl}), nil
}

// keyFlag is --partition-key-file: the secret that spreads callers over partitions.
type keyFlag struct{ path string }

func (k *keyFlag) add(flags *pflag.FlagSet) {
	flags.StringVar(&k.path, "partition-key-file", "",
		"`file` with 32 hexadecimal digits, the secret that spreads callers over partitions; the same for all servers (default: a public one)")
}

func (k *keyFlag) key() (schemas.PartitionKey, error) {
	if k.path == "" {
		return schemas.DefaultPartitionKey(), nil
	}
	text, err := os.ReadFile(k.path)
	if err != nil {
		return schemas.PartitionKey{}, fmt.Errorf("read partition key: %w", err)
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(b) != len(schemas.PartitionKey{}) {
		return schemas.PartitionKey{}, fmt.Errorf("read partition key: %s: got %d characters, want 32 hexadecimal digits", k.path, len(strings.TrimSpace(string(text))))
	}
	return schemas.PartitionKey(b), nil
}

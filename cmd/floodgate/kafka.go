package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/secure"
)

// kafkaFlags is the flags of all subcommands that speak to a Kafka cluster.
type kafkaFlags struct {
	brokers    []string
	names      schemas.TopicNames
	partitions int
	secure     secure.Options
	follower   bool // the subcommand uses only requests and decisions
}

func (k *kafkaFlags) add(flags *pflag.FlagSet) {
	d := schemas.DefaultTopicNames()
	flags.StringSliceVar(&k.brokers, "brokers", nil, "Kafka brokers to find the cluster by, `host:port,...`")
	flags.IntVar(&k.partitions, "partitions", 4, "partitions of the topics that are created")
	flags.StringVar(&k.names.Requests, "topic-requests", d.Requests, "topic of request frames")
	flags.StringVar(&k.names.Decisions, "topic-decisions", d.Decisions, "topic of decisions")
	flags.StringVar(&k.names.State, "topic-state", d.State, "topic of snapshots")
	flags.StringVar(&k.names.Rejects, "topic-rejects", d.Rejects, "topic of lines and records that could not be read")
	flags.StringVar(&k.names.Control, "topic-control", d.Control, "topic of what people decide by hand")
	flags.StringVar(&k.names.Events, "topic-events", d.Events, "topic of what has happened: closes, their ends, what people decided")
	k.addSecurity(flags)
	inKafkaGroup(flags, "brokers", "partitions", "topic-requests", "topic-decisions", "topic-state", "topic-rejects", "topic-control", "topic-events")
}

// addSecurity adds the flags for TLS and SASL.
func (k *kafkaFlags) addSecurity(flags *pflag.FlagSet) {
	o := &k.secure
	flags.BoolVar(&o.TLS, "tls", false, "speak TLS to the brokers, and verify their certificates and host names")
	flags.StringVar(&o.CA, "tls-ca", "", "PEM `file` of the authorities to trust (default: the system's)")
	flags.StringVar(&o.Cert, "tls-cert", "", "PEM `file` of this client's certificate, for brokers that ask for one; read again for each connection")
	flags.StringVar(&o.Key, "tls-key", "", "PEM `file` of its key")
	flags.StringVar(&o.ServerName, "tls-server-name", "", "`name` to expect in the brokers' certificates (default: the host dialled)")
	flags.StringVar(&o.SASL, "sasl", "", "`mechanism` to log in by: "+secure.Plain+", "+secure.ScramSHA256+" or "+secure.ScramSHA512)
	flags.StringVar(&o.User, "sasl-user", "", "user to log in as")
	flags.StringVar(&o.PasswordFile, "sasl-password-file", "", "`file` with its password; read again for each connection")
	flags.BoolVar(&o.Insecure, "sasl-insecure", false, "allow --sasl without --tls: the password then crosses the network unencrypted")
	inKafkaGroup(flags, "tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "sasl", "sasl-user", "sasl-password-file", "sasl-insecure")
}

// addFollower adds the flags of subcommands that create no topics, and use only requests and decisions.
func (k *kafkaFlags) addFollower(flags *pflag.FlagSet) {
	d := schemas.DefaultTopicNames()
	k.partitions, k.follower = 1, true // the number of partitions does not matter
	flags.StringSliceVar(&k.brokers, "brokers", nil, "Kafka brokers to find the cluster by, `host:port,...`")
	flags.StringVar(&k.names.Requests, "topic-requests", d.Requests, "topic of request frames")
	flags.StringVar(&k.names.Decisions, "topic-decisions", d.Decisions, "topic of decisions")
	k.addSecurity(flags)
	inKafkaGroup(flags, "brokers", "topic-requests", "topic-decisions")
}

// topics returns the names of the topics that the subcommand uses, with their flags.
func (k *kafkaFlags) topics() []topicFlag {
	list := []topicFlag{{"topic-requests", k.names.Requests}, {"topic-decisions", k.names.Decisions}}
	if k.follower {
		return list
	}
	return append(list, topicFlag{"topic-state", k.names.State}, topicFlag{"topic-rejects", k.names.Rejects}, topicFlag{"topic-control", k.names.Control},
		topicFlag{"topic-events", k.names.Events})
}

// topicFlag is one topic that a flag names.
type topicFlag struct{ flag, name string }

// uses returns the flag that names a topic already, or "".
func (k *kafkaFlags) uses(topic string) string {
	for _, t := range k.topics() {
		if t.name == topic {
			return t.flag
		}
	}
	return ""
}

// checkTopics returns a usage error unless each topic has a name of its own, because messages of different kinds must not
// share a topic.
func (k *kafkaFlags) checkTopics() error {
	for _, t := range k.topics() {
		if t.name == "" {
			return usagef("--%s: got none, want the name of a topic", t.flag)
		}
		if first := k.uses(t.name); first != t.flag {
			return usagef("--%s: got %q, which is --%s too; want topics of different names", t.flag, t.name, first)
		}
	}
	return nil
}

// checkForeign returns a usage error unless the names are those of topics of others, each given once.
func (k *kafkaFlags) checkForeign(topics []string) error {
	for i, t := range topics {
		if t == "" {
			return usagef("--topic: got none, want the name of a topic")
		}
		if flag := k.uses(t); flag != "" {
			return usagef("--topic: got %q, which is floodgate's own: --%s", t, flag)
		}
		if slices.Contains(topics[:i], t) {
			return usagef("--topic: got %s twice", t)
		}
	}
	return nil
}

// check returns a usage error if the flags are invalid.
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
	if err := k.checkTopics(); err != nil {
		return err
	}
	if err := k.secure.Check(); errors.Is(err, secure.ErrPlaintext) {
		return usagef("--sasl: %w; want --tls, or --sasl-insecure if this is intended", err)
	} else if err != nil {
		return usagef("--tls, --sasl: %w", err)
	}
	return nil
}

// client returns a client of the cluster, and reads the files of certificates and passwords. The client connects at its
// first call.
func (k *kafkaFlags) client() (*kafkaio.Client, error) { return k.observedClient(nil) }

// observedClient is client, and each call of the client is given to observe, if that is not nil.
func (k *kafkaFlags) observedClient(observe func(kafkaio.Call)) (*kafkaio.Client, error) {
	tls, sasl, err := k.secure.Load()
	if err != nil {
		return nil, fmt.Errorf("prepare the link to Kafka: %w", err)
	}
	return kafkaio.New(kafkaio.Config{Brokers: k.brokers, ClientID: "floodgate", TLS: tls, SASL: sasl, Observe: observe}), nil
}

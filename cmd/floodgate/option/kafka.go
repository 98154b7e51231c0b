package option

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/secure"
)

// Kafka is the flags of all subcommands that speak to a Kafka cluster.
type Kafka struct {
	Brokers    []string
	Names      schemas.TopicNames
	Partitions int
	Secure     secure.Options

	follower bool // the subcommand uses only requests and decisions
}

// Add adds the flags to a subcommand that uses all topics. Those that a person must give come first, and the others under a heading.
func (k *Kafka) Add(cmd *cobra.Command) {
	k.add(cmd, func(flags *pflag.FlagSet) {
		flags.IntVar(&k.Partitions, "partitions", 4, "partitions of the topics that are created")
		flags.StringVar(&k.Names.Requests, "topic-requests", k.Names.Requests, "topic of request frames")
		flags.StringVar(&k.Names.Decisions, "topic-decisions", k.Names.Decisions, "topic of decisions")
		flags.StringVar(&k.Names.State, "topic-state", k.Names.State, "topic of snapshots")
		flags.StringVar(&k.Names.Rejects, "topic-rejects", k.Names.Rejects, "topic of lines and records that could not be read")
		flags.StringVar(&k.Names.Control, "topic-control", k.Names.Control, "topic of what people decide by hand")
		flags.StringVar(&k.Names.Events, "topic-events", k.Names.Events, "topic of what has happened: closes, their ends, what people decided")
	})
}

// AddFollower adds the flags to a subcommand that creates no topics, and uses only requests and decisions.
func (k *Kafka) AddFollower(cmd *cobra.Command) {
	k.Partitions, k.follower = 1, true // the number of partitions does not matter
	k.add(cmd, func(flags *pflag.FlagSet) {
		flags.StringVar(&k.Names.Requests, "topic-requests", k.Names.Requests, "topic of request frames")
		flags.StringVar(&k.Names.Decisions, "topic-decisions", k.Names.Decisions, "topic of decisions")
	})
}

// AddEvents adds the flags to a subcommand that creates no topics, and uses only that of events.
func (k *Kafka) AddEvents(cmd *cobra.Command) {
	k.Partitions, k.follower = 1, true
	k.add(cmd, func(flags *pflag.FlagSet) {
		flags.StringVar(&k.Names.Events, "topic-events", k.Names.Events, "topic of what has happened: closes, their ends, what people decided")
	})
}

// add adds the brokers, topics, TLS and SASL.
func (k *Kafka) add(cmd *cobra.Command, topics func(*pflag.FlagSet)) {
	k.Names = schemas.DefaultTopicNames()
	cmd.Flags().StringSliceVar(&k.Brokers, "brokers", nil, "Kafka brokers to find the cluster by, `host:port,...`")
	o := &k.Secure
	command.Section(cmd, "Kafka", func(flags *pflag.FlagSet) {
		topics(flags)
		flags.BoolVar(&o.TLS, "tls", false, "speak TLS to the brokers, and verify their certificates and host names")
		flags.StringVar(&o.CA, "tls-ca", "", "PEM `file` of the authorities to trust (default: the system's)")
		flags.StringVar(&o.Cert, "tls-cert", "", "PEM `file` of this client's certificate, for brokers that ask for one; read again for each connection")
		flags.StringVar(&o.Key, "tls-key", "", "PEM `file` of its key")
		flags.StringVar(&o.SASL, "sasl", "", "`mechanism` to log in by: "+secure.Plain+", "+secure.ScramSHA256+" or "+secure.ScramSHA512)
		flags.StringVar(&o.User, "sasl-user", "", "user to log in as")
		flags.StringVar(&o.PasswordFile, "sasl-password-file", "", "`file` with its password; read again for each connection")
		flags.BoolVar(&o.Insecure, "sasl-insecure", false, "allow --sasl without --tls: the password then crosses the network unencrypted")
	})
	command.Words(cmd, "sasl", secure.Plain, secure.ScramSHA256, secure.ScramSHA512)
}

// topics returns the names of the topics that the subcommand uses, with their flags.
func (k *Kafka) topics() []topicFlag {
	list := []topicFlag{{"topic-requests", k.Names.Requests}, {"topic-decisions", k.Names.Decisions}}
	if k.follower {
		return list
	}
	return append(list, topicFlag{"topic-state", k.Names.State}, topicFlag{"topic-rejects", k.Names.Rejects}, topicFlag{"topic-control", k.Names.Control},
		topicFlag{"topic-events", k.Names.Events})
}

// topicFlag is one topic that a flag names.
type topicFlag struct{ flag, name string }

// Uses returns the flag that names a topic already, or "".
func (k *Kafka) Uses(topic string) string {
	for _, t := range k.topics() {
		if t.name == topic {
			return t.flag
		}
	}
	return ""
}

// checkTopics returns a usage error unless each topic has a name of its own, because messages of different kinds must not
// share a topic.
func (k *Kafka) checkTopics() error {
	for _, t := range k.topics() {
		if t.name == "" {
			return command.Usagef("--%s: got none, want the name of a topic", t.flag)
		}
		if first := k.Uses(t.name); first != t.flag {
			return command.Usagef("--%s: got %q, which is --%s too; want topics of different names", t.flag, t.name, first)
		}
	}
	return nil
}

// CheckForeign returns a usage error unless the names are those of topics of others, each given once.
func (k *Kafka) CheckForeign(topics []string) error {
	for i, t := range topics {
		if t == "" {
			return command.Usagef("--topic: got none, want the name of a topic")
		}
		if flag := k.Uses(t); flag != "" {
			return command.Usagef("--topic: got %q, which is floodgate's own: --%s", t, flag)
		}
		if slices.Contains(topics[:i], t) {
			return command.Usagef("--topic: got %s twice", t)
		}
	}
	return nil
}

// Check returns a usage error if the flags are invalid.
func (k *Kafka) Check() error {
	if len(k.Brokers) == 0 {
		return command.Usagef("--brokers: got none, want at least one host:port")
	}
	for _, b := range k.Brokers {
		host, port, err := net.SplitHostPort(b)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || perr != nil || n == 0 {
			return command.Usagef("--brokers: got %q, want host:port", b)
		}
	}
	if k.Partitions < 1 || k.Partitions > 10_000 {
		return command.Usagef("--partitions: got %d, want 1 to 10000", k.Partitions)
	}
	if err := k.checkTopics(); err != nil {
		return err
	}
	if err := k.Secure.Check(); errors.Is(err, secure.ErrPlaintext) {
		return command.Usagef("--sasl: %w; want --tls, or --sasl-insecure if this is intended", err)
	} else if err != nil {
		return command.Usagef("--tls, --sasl: %w", err)
	}
	return nil
}

// Client returns a client of the cluster, and reads the files of certificates and passwords. The client connects at its
// first call.
func (k *Kafka) Client() (*kafkaio.Client, error) { return k.ObservedClient(nil) }

// ObservedClient is Client, and each call of the client is given to observe, if that is not nil.
func (k *Kafka) ObservedClient(observe func(kafkaio.Call)) (*kafkaio.Client, error) {
	tls, sasl, err := k.Secure.Load()
	if err != nil {
		return nil, fmt.Errorf("prepare the link to Kafka: %w", err)
	}
	return kafkaio.New(kafkaio.Config{Brokers: k.Brokers, ClientID: "floodgate", TLS: tls, SASL: sasl, Observe: observe}), nil
}

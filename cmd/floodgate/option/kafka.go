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
	Prefix     string             // of the names of topics
	Names      schemas.TopicNames // once Check has returned
	Partitions int
	Secure     secure.Options

	named map[string]string // topics that do not begin with the prefix, by what is in them
}

// Add adds the flags to a subcommand. What few people give is hidden: floodgate help kafka prints it.
func (k *Kafka) Add(cmd *cobra.Command) {
	k.Partitions = 1 // it does not matter where no topics are created
	cmd.Flags().StringSliceVar(&k.Brokers, "brokers", nil, "Kafka brokers to find the cluster by, `host:port,...`; for TLS and SASL see floodgate help kafka")
	command.Section(cmd, "Kafka", func(flags *pflag.FlagSet) {
		flags.StringVar(&k.Prefix, "topic-prefix", "floodgate", "`prefix` of the names of all topics: PREFIX.requests, .decisions, .state, .rejects, .control and .events")
		k.addLink(flags)
	})
	command.Hide(cmd.Flags(), "topic-name", "tls", "tls-ca", "tls-cert", "tls-key", "sasl", "sasl-user", "sasl-password-file", "sasl-insecure")
	command.Words(cmd, "sasl", secure.Plain, secure.ScramSHA256, secure.ScramSHA512)
}

// AddPartitions adds the flag of a subcommand that creates topics.
func (k *Kafka) AddPartitions(cmd *cobra.Command) {
	command.Section(cmd, "Kafka", func(flags *pflag.FlagSet) {
		flags.IntVar(&k.Partitions, "partitions", 4, "partitions of the topics that are created")
	})
}

// addLink adds what few people give.
func (k *Kafka) addLink(flags *pflag.FlagSet) {
	flags.StringToStringVar(&k.named, "topic-name", nil, "`kind=topic`, such as control=floodgate.control: a topic whose name does not begin with the prefix")
	flags.Lookup("topic-name").DefValue = ""
	o := &k.Secure
	flags.BoolVar(&o.TLS, "tls", false, "speak TLS to the brokers, and verify their certificates and host names")
	flags.StringVar(&o.CA, "tls-ca", "", "PEM `file` of the authorities to trust (default: the system's)")
	flags.StringVar(&o.Cert, "tls-cert", "", "PEM `file` of this client's certificate, for brokers that ask for one; read again for each connection")
	flags.StringVar(&o.Key, "tls-key", "", "PEM `file` of its key")
	flags.StringVar(&o.SASL, "sasl", "", "`mechanism` to log in by: "+secure.Plain+", "+secure.ScramSHA256+" or "+secure.ScramSHA512)
	flags.StringVar(&o.User, "sasl-user", "", "user to log in as")
	flags.StringVar(&o.PasswordFile, "sasl-password-file", "", "`file` with its password; read again for each connection")
	flags.BoolVar(&o.Insecure, "sasl-insecure", false, "allow --sasl without --tls: the password then crosses the network unencrypted")
}

// KafkaTopic is a page of help: the flags that help hides from each subcommand that speaks to Kafka.
func KafkaTopic() *cobra.Command {
	var k Kafka
	cmd := &cobra.Command{
		Use:    "kafka",
		Short:  "flags of all subcommands that speak to Kafka",
		Long:   "All subcommands that speak to Kafka (analyze, sidecar, ingest, notify, migrate, decisions, topics, repartition, audit and rejects) have these flags, too.",
		Hidden: true,
	}
	k.addLink(cmd.Flags())
	return cmd
}

// topic is one of floodgate's topics: what is in it, and its name.
type topic struct {
	kind string
	name *string
}

func (k *Kafka) topics() []topic {
	n := &k.Names
	return []topic{
		{"requests", &n.Requests}, {"decisions", &n.Decisions}, {"state", &n.State}, {"rejects", &n.Rejects}, {"control", &n.Control}, {"events", &n.Events},
	}
}

// Uses returns what is in a topic of floodgate, or "".
func (k *Kafka) Uses(name string) string {
	for _, t := range k.topics() {
		if *t.name == name {
			return t.kind
		}
	}
	return ""
}

// nameTopics sets the names of topics. It returns a usage error unless each topic has a name of its own, because messages of different
// kinds must not share a topic.
func (k *Kafka) nameTopics() error {
	if k.Prefix == "" {
		return command.Usagef("--topic-prefix: got none, want the beginning of the names of topics")
	}
	k.Names = schemas.TopicNamesOf(k.Prefix)
	for kind, name := range k.named {
		i := slices.IndexFunc(k.topics(), func(t topic) bool { return t.kind == kind })
		if i < 0 || name == "" {
			return command.Usagef("--topic-name: got %s=%s, want requests, decisions, state, rejects, control or events, and the name of a topic", kind, name)
		}
		*k.topics()[i].name = name
	}
	for _, t := range k.topics() {
		if first := k.Uses(*t.name); first != t.kind {
			return command.Usagef("--topic-name: got %q for %s, which is the topic of %s; want topics of different names", *t.name, t.kind, first)
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
		if kind := k.Uses(t); kind != "" {
			return command.Usagef("--topic: got %q, which is floodgate's own topic of %s", t, kind)
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
	if err := k.nameTopics(); err != nil {
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

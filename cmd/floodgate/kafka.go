package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// kafkaFlags is the flags of all subcommands that speak to a Kafka cluster.
type kafkaFlags struct {
	brokers    []string
	names      kafkaio.TopicNames
	partitions int
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
}

// check returns a usage error if the flags can't work.
func (k *kafkaFlags) check() error {
	if len(k.brokers) == 0 {
		return usagef("--brokers: got none, want at least one host:port")
	}
	if k.partitions < 1 || k.partitions > 10_000 {
		return usagef("--partitions: got %d, want 1 to 10000", k.partitions)
	}
	return nil
}

// client returns a client of the cluster; nothing connects before its first call.
func (k *kafkaFlags) client() *kafkaio.Client {
	return kafkaio.New(kafkaio.Config{Brokers: k.brokers, ClientID: "floodgate"})
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

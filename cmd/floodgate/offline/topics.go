package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Topics checks the topics. With --create it first creates those that are missing.
func Topics(p command.Process) *cobra.Command {
	c := topicsConfig{layout: kafkaio.Layout{Outage: kafkaio.DefaultOutage}}
	cmd := &cobra.Command{
		Use:     "topics --brokers HOST:PORT... [flags]",
		Short:   "print, create and check the Kafka topics",
		Example: "floodgate topics --brokers kafka:9092 --partition-key-file /etc/floodgate/partition.key --create",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.counted = cmd.Flags().Changed("partitions")
			return c.run(cmd.Context(), p)
		},
	}
	c.kafka.Add(cmd)
	c.kafka.AddPartitions(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&c.create, "create", false, "create the topics that are missing")
	flags.StringArrayVar(&c.foreign, "topic", nil, "foreign `topic` that ingest reads, to create or check too; can be given several times")
	flags.StringVar(&c.key.Path, "partition-key-file", "", "`file` with the partition key to check; with --create, a random key is made if there is no file; no file is ever changed")
	flags.IntVar(&c.layout.Replicas, "replicas", 0, "replicas of topics that are created (default: the broker's own)")
	flags.Var((*command.Duration)(&c.layout.Outage), "outage", "longest time without an analyzer that must not lose counts")
	flags.BoolVar(&c.repair, "repair-epochs", false, "instead, read the whole topic of decisions, and claim a higher epoch for partitions whose owner gates refuse, because somebody else claimed a higher one")
	c.output.Add(cmd)
	return cmd
}

// topicsConfig is the flags of topics.
type topicsConfig struct {
	kafka          option.Kafka
	key            option.Key
	layout         kafkaio.Layout
	foreign        []string
	counted        bool // --partitions is given
	create, repair bool
	output         command.Output
}

func (c *topicsConfig) run(ctx context.Context, p command.Process) error {
	k, layout, asJSON := &c.kafka, c.layout, c.output.JSON
	if err := k.Check(); err != nil {
		return err
	}
	if err := k.CheckForeign(c.foreign); err != nil {
		return err
	}
	layout.Names = k.Names
	client, err := k.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	if c.repair {
		return repairEpochs(ctx, p, asJSON, client, k.Names.Decisions)
	}
	if err := client.CheckBrokers(ctx); err != nil {
		return err
	}
	layout.Partitions, err = c.partitions(ctx, client)
	if err != nil {
		return fmt.Errorf("check topics: %w", err)
	}
	specs := append(layout.Specs(), foreignSpecs(c.foreign)...)
	if err := printKey(p, asJSON, c.key, c.create); err != nil {
		return err
	}
	created := []string{}
	if c.create {
		made, err := client.EnsureTopics(ctx, creatable(layout, specs)...)
		if err != nil {
			return fmt.Errorf("create topics: %w", err)
		}
		created = append(created, made...)
	}
	findings, err := client.CheckTopics(ctx, specs...)
	if err != nil {
		return fmt.Errorf("check topics: %w", err)
	}
	if c.counted && layout.Partitions != k.Partitions {
		findings = slices.Insert(findings, 0, kafkaio.Finding{
			Topic: k.Names.Requests, Setting: "partitions", Got: strconv.Itoa(layout.Partitions), Want: strconv.Itoa(k.Partitions), Severity: kafkaio.Error,
			Why: "a topic keeps its number, as counts would split: floodgate repartition writes the requests to a topic with another number",
		})
	}
	return printTopics(p, asJSON, specs, created, findings)
}

// partitions returns how many partitions the topics must have: as many as the topic of requests has, if there is one, and otherwise what
// --partitions says.
func (c *topicsConfig) partitions(ctx context.Context, client *kafkaio.Client) (int, error) {
	n, err := client.Partitions(ctx, c.kafka.Names.Requests)
	if errors.Is(err, kafkaio.ErrNoTopic) {
		return c.kafka.Partitions, nil
	}
	return n, err
}

// printKey checks the partition key, or makes it with --create if it is missing. It prints the key's fingerprint, which
// frames carry too, and never the key itself.
func printKey(p command.Process, asJSON bool, key option.Key, create bool) error {
	if key.Path == "" {
		return nil
	}
	secret, made, err := key.Secret(create)
	if err != nil {
		return fmt.Errorf("topics: %w", err)
	}
	fingerprint := fmt.Sprintf("%016x", secret.Fingerprint())
	if asJSON {
		return printable.JSON(p.Stdout).Encode(map[string]any{"type": "partition_key", "file": key.Path, "created": made, "fingerprint": fingerprint})
	}
	if !made {
		_, err = fmt.Fprintf(p.Stdout, "partition key %s: there already, not changed, fingerprint %s\n", printable.Of(key.Path), fingerprint)
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "partition key %s: created, fingerprint %s. Give the same file to analyze, audit, ingest, sidecar and repartition, and its key to\n"+
		"each server that embeds a gate. Requests under another key, or under none, are refused.\n", printable.Of(key.Path), fingerprint)
	return err
}

// printTopics prints the findings, and returns an error if one of them is an error.
func printTopics(p command.Process, asJSON bool, specs []kafkaio.TopicSpec, created []string, findings []kafkaio.Finding) error {
	var err error
	if asJSON {
		err = encodeTopics(p, specs, created, findings)
	} else {
		err = renderTopics(p, specs, created, findings)
	}
	if err != nil {
		return err
	}
	wrong := 0
	for _, f := range findings {
		if f.Severity == kafkaio.Error {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("topics: %s", terminal.Amount(wrong, "wrong setting"))
	}
	return nil
}

func renderTopics(p command.Process, specs []kafkaio.TopicSpec, created []string, findings []kafkaio.Finding) error {
	for _, name := range created {
		fmt.Fprintf(p.Stdout, "created %s%s\n", printable.Of(name), futureBoundText(name, specs[0].Name, findings))
	}
	if len(findings) == 0 {
		_, err := fmt.Fprintf(p.Stdout, "%d topics, all as they should be\n", len(specs))
		return err
	}
	t := terminal.NewTable(p.Stdout, "", "topic", "setting", "got", "want", "because")
	for _, f := range findings {
		t.AppendRow(terminal.Cells(f.Severity, f.Topic, f.Setting, f.Got, f.Want, f.Why))
	}
	t.Render()
	return nil
}

// futureBoundText returns a text with the setting by which the topic of requests, which was created, refuses messages from the future. For
// other topics it returns "".
func futureBoundText(name, requests string, findings []kafkaio.Finding) string {
	if name != requests {
		return ""
	}
	for _, f := range findings {
		if f.Topic == requests && f.Setting == kafkaio.SettingTimes {
			return fmt.Sprintf(" with %s=%s, since the broker does not know %s", f.Setting, f.Got, kafkaio.SettingAhead)
		}
	}
	return fmt.Sprintf(" with %s=%d", kafkaio.SettingAhead, kafkaio.MaxAhead.Milliseconds())
}

func encodeTopics(p command.Process, specs []kafkaio.TopicSpec, created []string, findings []kafkaio.Finding) error {
	enc := printable.JSON(p.Stdout)
	for _, f := range findings {
		if err := enc.Encode(map[string]any{
			"type": "finding", "severity": f.Severity.String(), "topic": f.Topic, "setting": f.Setting,
			"got": f.Got, "want": f.Want, "why": f.Why,
		}); err != nil {
			return err
		}
	}
	return enc.Encode(map[string]any{"type": "summary", "topics": len(specs), "created": created, "findings": len(findings)})
}

// foreignSpecs returns what topics of others must be.
func foreignSpecs(names []string) (specs []kafkaio.TopicSpec) {
	for _, name := range names {
		specs = append(specs, kafkaio.ForeignSpec(name))
	}
	return specs
}

// creatable returns the specs with which topics are created: foreign topics get as many partitions and replicas as ours, and
// the broker's own settings.
func creatable(l kafkaio.Layout, specs []kafkaio.TopicSpec) []kafkaio.TopicSpec {
	all := slices.Clone(specs)
	for i := range all {
		if all[i].Partitions == 0 {
			all[i].Partitions, all[i].Replicas = l.Partitions, l.Replicas
		}
	}
	return all
}

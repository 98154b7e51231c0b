package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// runTopics checks the topics. With --create it first creates those that are missing.
func runTopics(ctx context.Context, p process, args []string) error {
	flags := newFlags("topics --brokers HOST:PORT... [flags]")
	var k kafkaFlags
	var key keyFlag
	var out outputFlag
	var create, repair bool
	var foreign []string
	layout := kafkaio.Layout{Outage: kafkaio.DefaultOutage}
	k.add(flags)
	flags.BoolVar(&create, "create", false, "create the topics that are missing")
	flags.StringArrayVar(&foreign, "topic", nil, "foreign `topic` that ingest reads, to create or check too; can be given several times")
	flags.StringVar(&key.path, "partition-key-file", "", "`file` with the partition key to check; with --create, a random key is made if there is no file; no file is ever changed")
	flags.IntVar(&layout.Replicas, "replicas", 0, "replicas of topics that are created (default: the broker's own)")
	flags.Var((*durationFlag)(&layout.Outage), "outage", "longest time without an analyzer that must not lose counts")
	flags.BoolVar(&repair, "repair-epochs", false, "instead, read the whole topic of decisions, and claim a higher epoch for partitions whose owner gates refuse, because somebody else claimed a higher one")
	flags.Var(&out, "output", "table or json")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	if err := k.check(); err != nil {
		return err
	}
	if err := k.checkForeign(foreign); err != nil {
		return err
	}
	layout.Names, layout.Partitions = k.names, k.partitions
	client, err := k.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if repair {
		return repairEpochs(ctx, p, out.json, client, k.names.Decisions)
	}
	specs := append(layout.Specs(), foreignSpecs(foreign)...)
	if err := client.CheckBrokers(ctx); err != nil {
		return err
	}
	if err := printKey(p, out.json, key, create); err != nil {
		return err
	}
	created := []string{}
	if create {
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
	return printTopics(p, out.json, specs, created, findings)
}

// printKey checks the partition key, or makes it with --create if it is missing. It prints the key's fingerprint, which
// frames carry too, and never the key itself.
func printKey(p process, asJSON bool, key keyFlag, create bool) error {
	if key.path == "" {
		return nil
	}
	secret, made, err := key.secret(create)
	if err != nil {
		return fmt.Errorf("topics: %w", err)
	}
	fingerprint := fmt.Sprintf("%016x", secret.Fingerprint())
	if asJSON {
		return printable.JSON(p.stdout).Encode(map[string]any{"type": "partition_key", "file": key.path, "created": made, "fingerprint": fingerprint})
	}
	if !made {
		_, err = fmt.Fprintf(p.stdout, "partition key %s: there already, not changed, fingerprint %s\n", printable.Of(key.path), fingerprint)
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "partition key %s: created, fingerprint %s. Give the same file to analyze, audit, ingest, sidecar and repartition, and its key to\n"+
		"each server that embeds a gate. Requests under another key, or under none, are refused.\n", printable.Of(key.path), fingerprint)
	return err
}

// printTopics prints the findings, and returns an error if one of them is an error.
func printTopics(p process, asJSON bool, specs []kafkaio.TopicSpec, created []string, findings []kafkaio.Finding) error {
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
		return fmt.Errorf("topics: %d settings are wrong", wrong)
	}
	return nil
}

func renderTopics(p process, specs []kafkaio.TopicSpec, created []string, findings []kafkaio.Finding) error {
	for _, name := range created {
		fmt.Fprintf(p.stdout, "created %s\n", printable.Of(name))
	}
	if len(findings) == 0 {
		_, err := fmt.Fprintf(p.stdout, "%d topics, all as they should be\n", len(specs))
		return err
	}
	t := terminal.NewTable(p.stdout, "", "topic", "setting", "got", "want", "because")
	for _, f := range findings {
		t.AppendRow(terminal.Cells(f.Severity, f.Topic, f.Setting, f.Got, f.Want, f.Why))
	}
	t.Render()
	return nil
}

func encodeTopics(p process, specs []kafkaio.TopicSpec, created []string, findings []kafkaio.Finding) error {
	enc := printable.JSON(p.stdout)
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

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// runTopics checks the topics, after creating those that are missing if asked to.
func runTopics(ctx context.Context, p process, args []string) error {
	flags := newFlags("topics --brokers HOST:PORT... [flags]")
	var k kafkaFlags
	var out outputFlag
	var create bool
	layout := kafkaio.Layout{}
	k.add(flags)
	flags.BoolVar(&create, "create", false, "create the topics that are missing")
	flags.IntVar(&layout.Replicas, "replicas", 0, "replicas of topics that are created (default: the broker's own)")
	flags.DurationVar(&layout.Outage, "outage", kafkaio.DefaultOutage, "longest time without an analyzer after which no count may be lost")
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
	layout.Names, layout.Partitions = k.names, k.partitions
	client, err := k.client()
	if err != nil {
		return err
	}
	defer client.Close()
	specs := layout.Specs()
	if err := client.CheckBrokers(ctx); err != nil {
		return err
	}
	created := []string{}
	if create {
		made, err := client.EnsureTopics(ctx, specs...)
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

// printTopics prints what is wrong, and fails if any of it is an error.
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
		fmt.Fprintf(p.stdout, "created %s\n", name)
	}
	if len(findings) == 0 {
		_, err := fmt.Fprintf(p.stdout, "%d topics, all as they should be\n", len(specs))
		return err
	}
	t := table.NewWriter()
	t.SetOutputMirror(p.stdout)
	t.AppendHeader(table.Row{"", "topic", "setting", "got", "want", "because"})
	for _, f := range findings {
		t.AppendRow(table.Row{f.Severity, f.Topic, f.Setting, f.Got, f.Want, f.Why})
	}
	t.Render()
	return nil
}

func encodeTopics(p process, specs []kafkaio.TopicSpec, created []string, findings []kafkaio.Finding) error {
	enc := json.NewEncoder(p.stdout)
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

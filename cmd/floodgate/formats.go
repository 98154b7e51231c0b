package main

import (
	"context"

	"github.com/509da70d/floodgate/analyzer/ingest"
)

// runFormats prints the formats of logs, with the fields that mappings can name.
func runFormats(_ context.Context, p process, args []string) error {
	flags := newFlags("formats\n\nPrints the formats of logs that ingest and replay read, and the fields of each for mappings, as Markdown.")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	return ingest.WriteFormats(p.stdout)
}

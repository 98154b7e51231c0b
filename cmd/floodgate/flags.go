package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/document"
)

// newFlags returns an empty flag set for a subcommand; usage is its synopsis after the word "floodgate".
func newFlags(usage string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(usage, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard) // parseFlags prints help, and returns errors
	flags.Usage = func() {}
	return flags
}

// parseFlags parses args, then takes each flag that was not given from the environment: --some-name from
// FLOODGATE_SOME_NAME. A mistake is a usage error. A request for help prints the help and returns pflag.ErrHelp.
func parseFlags(p process, flags *pflag.FlagSet, args []string) error {
	if p.describe != nil {
		p.describe(flags)
		return pflag.ErrHelp
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			printHelp(p.stdout, flags)
			return err
		}
		return usagef("%w%s; see floodgate %s --help", err, meantFlag(flags, err), strings.Fields(flags.Name())[0])
	}
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		value, ok := p.lookup(name)
		if f.Changed || !ok {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, usagef("%s: %w", name, err))
		}
	})
	return errors.Join(errs...)
}

// flagsOnly returns a usage error if the command line has arguments other than flags.
func flagsOnly(flags *pflag.FlagSet) error {
	if flags.NArg() == 0 {
		return nil
	}
	return usagef("%s: got %q, want flags only", strings.Fields(flags.Name())[0], flags.Args())
}

// variable returns the environment variable of a flag.
func variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// outputFlag is --output: table for people or json for machines.
type outputFlag struct{ json bool }

func (o *outputFlag) String() string {
	if o.json {
		return "json"
	}
	return "table"
}

func (o *outputFlag) Set(s string) error {
	switch s {
	case "json", "table":
		o.json = s == "json"
		return nil
	}
	return fmt.Errorf("got %q, want table or json", s)
}

func (o *outputFlag) Type() string { return "format" }

// durationFlag is a duration of a flag. It takes days and weeks too, as rules files do: 90s, 7d.
type durationFlag time.Duration

// String implements pflag.Value. It is empty for zero.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return document.FormatDuration(time.Duration(*d))
}

// Set implements pflag.Value.
func (d *durationFlag) Set(text string) error {
	length, err := document.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("got %q, %w", text, err)
	}
	*d = durationFlag(length)
	return nil
}

// Type implements pflag.Value.
func (d *durationFlag) Type() string { return "duration" }

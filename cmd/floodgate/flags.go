package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// newFlags returns an empty flag set for a subcommand; usage is its synopsis behind "floodgate".
func newFlags(usage string) *pflag.FlagSet {
	flags := pflag.NewFlagSet(usage, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard) // parseFlags says what there is to say
	flags.Usage = func() {}
	return flags
}

// parseFlags parses args, then takes each flag that was not given from the environment: --some-name from
// FLOODGATE_SOME_NAME. What is wrong is a usage error; asking for help prints it and is pflag.ErrHelp.
func parseFlags(p process, flags *pflag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(p.stdout, "Usage: floodgate %s\n\n%s", flags.Name(), flags.FlagUsages())
			return err
		}
		return usagef("%w; see floodgate %s --help", err, strings.Fields(flags.Name())[0])
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

// flagsOnly returns a usage error if there is more on the command line than flags.
func flagsOnly(flags *pflag.FlagSet) error {
	if flags.NArg() == 0 {
		return nil
	}
	return usagef("%s: got %q, want flags only", strings.Fields(flags.Name())[0], flags.Args())
}

// variable returns the environment variable of a flag.
func variable(flag string) string {
	return "FLOODGATE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
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

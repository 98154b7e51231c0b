package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// variablePrefix begins the environment variable of each flag.
const variablePrefix = "FLOODGATE_"

// fromVariable is the annotation of a flag that the environment has set.
const fromVariable = "variable"

// FromEnvironment takes each flag that was not given from the environment: --some-name from FLOODGATE_SOME_NAME.
func FromEnvironment(p Process, flags *pflag.FlagSet) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		value, ok := p.Lookup(name)
		if f.Changed || !ok {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, Usagef("%s: %w", name, wrongValue(err)))
		}
		_ = flags.SetAnnotation(f.Name, fromVariable, []string{name}) // there is such a flag
	})
	return errors.Join(errs...)
}

// Given reports whether a flag is on the command line, and not only in the environment.
func Given(flags *pflag.FlagSet, name string) bool {
	return flags.Changed(name) && flags.Lookup(name).Annotations[fromVariable] == nil
}

// warnOfVariables warns of environment variables that are of no flag of any subcommand. They change nothing, and are no
// error: several subcommands may share one environment.
func (r *Root) warnOfVariables() {
	if r.process.Environ == nil {
		return
	}
	var known []string
	for _, entry := range r.process.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || foreignVariable(name) {
			continue
		}
		if known == nil {
			known = r.flags()
		}
		flag := flagOf(name)
		if name == variable(flag) && slices.Contains(known, flag) {
			continue
		}
		hint := ""
		if meant := document.Closest(flag, known); meant != "" {
			hint = ", did you mean " + variable(meant) + "?"
		}
		fmt.Fprintf(r.process.Stderr, "floodgate: warning: %s is in the environment, and there is no such flag%s\n", printable.Of(name), hint)
	}
}

// flags returns the names of the flags of all subcommands.
func (r *Root) flags() (names []string) {
	r.Each(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	})
	return names
}

// foreignVariable reports whether something else than a person sets a variable: Kubernetes, for a service that is named
// floodgate, or the tests of this repository.
func foreignVariable(name string) bool {
	rest := strings.TrimPrefix(name, variablePrefix)
	switch rest {
	case "PORT", "LONG", "KAFKA", "LOGS", "SIMULATIONS", "FAILPOINT":
		return true
	}
	return strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "TEST_") || strings.Contains(rest, "SERVICE_HOST") || strings.Contains(rest, "SERVICE_PORT")
}

// variable returns the environment variable of a flag.
func variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// flagOf returns the flag of an environment variable: see variable.
func flagOf(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, variablePrefix), "_", "-"))
}

package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/document"
)

// Words lets shells complete a flag by these words.
func Words(cmd *cobra.Command, flag string, words ...string) {
	Complete(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Complete lets shells complete a flag by a function.
func Complete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	f := cmd.Flag(flag)
	if f == nil {
		panic("BUG: no flag --" + flag)
	}
	if _, is := f.Value.(completed); is {
		panic("BUG: two functions complete --" + flag)
	}
	f.Value = completed{f.Value, by}
}

// completed is the value of a flag that shells complete. The flag is registered with cobra only when a shell asks, because cobra keeps each
// registered flag, and all flags of its subcommand, until the process ends.
type completed struct {
	pflag.Value

	by cobra.CompletionFunc
}

// registerCompletions tells cobra which flags are completed.
func (r *Root) registerCompletions() {
	r.Each(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if c, is := f.Value.(completed); is {
				if err := cmd.RegisterFlagCompletionFunc(f.Name, c.by); err != nil {
					panic("BUG: " + err.Error())
				}
			}
		})
	})
}

// Output is --output: table for people or json for machines.
type Output struct{ JSON bool }

// Add adds the flag to a subcommand.
func (o *Output) Add(cmd *cobra.Command) {
	cmd.Flags().Var(o, "output", "table or json")
	Words(cmd, "output", "table", "json")
}

// String implements pflag.Value.
func (o *Output) String() string {
	if o.JSON {
		return "json"
	}
	return "table"
}

// Set implements pflag.Value.
func (o *Output) Set(s string) error {
	switch s {
	case "json", "table":
		o.JSON = s == "json"
		return nil
	}
	return fmt.Errorf("got %q, want table or json", s)
}

// Type implements pflag.Value.
func (o *Output) Type() string { return "format" }

// Duration is a duration of a flag. It takes days and weeks too, as rules files do: 90s, 7d.
type Duration time.Duration

// String implements pflag.Value. It is empty for zero.
func (d *Duration) String() string {
	if *d == 0 {
		return ""
	}
	return document.FormatDuration(time.Duration(*d))
}

// Set implements pflag.Value.
func (d *Duration) Set(text string) error {
	length, err := document.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("got %q, %w", text, err)
	}
	*d = Duration(length)
	return nil
}

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }

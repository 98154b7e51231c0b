package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/document"
)

// Words lets shells complete a flag by these words.
func Words(cmd *cobra.Command, flag string, words ...string) {
	Complete(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Complete lets shells complete a flag by a function.
func Complete(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic("BUG: " + err.Error()) // there is no such flag, or it has a function
	}
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

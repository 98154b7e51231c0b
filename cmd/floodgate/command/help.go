package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// heading is the annotation of a flag that says under which heading help prints it.
const heading = "heading"

// The headings that have a place of their own: flags without a heading come first, and those of Kafka last.
const (
	first = "Flags"
	last  = "Kafka"
)

// Section adds flags to a subcommand, and lets help print them under a heading.
func Section(cmd *cobra.Command, title string, add func(flags *pflag.FlagSet)) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(flags)
	flags.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{heading: {title}} })
	flags.SortFlags = false
	cmd.Flags().AddFlagSet(flags)
}

// Hide hides flags from help, which no person needs.
func Hide(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Hidden = true
	}
}

// help prints what a subcommand does, an example and its flags, or which subcommands there are.
func (r *Root) help(cmd *cobra.Command, _ []string) {
	w := r.process.Stdout
	if cmd == r.cobra || cmd.Name() == "help" {
		r.printSubcommands(w)
		return
	}
	width := defaultWidth
	if columns, _, ok := terminal.Size(w); ok {
		width = columns
	}
	if cmd.Runnable() {
		fmt.Fprintf(w, "Usage: floodgate %s%s\n", strings.TrimSuffix(path(cmd), cmd.Name()), cmd.Use)
	}
	if cmd.Long != "" {
		fmt.Fprint(w, "\n"+wrap(cmd.Long, width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w)
		for _, c := range cmd.Commands() {
			fmt.Fprintf(w, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExample:\n  %s\n", cmd.Example)
	}
	printFlags(w, cmd.LocalFlags(), width)
}

// defaultWidth is how many columns there are where nobody says.
const defaultWidth = 80

// wrap breaks lines that are longer than the width. Lines that begin with a space stay.
func wrap(long string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(long) {
		if !strings.HasPrefix(line, " ") {
			line = text.WrapSoft(line, width)
		}
		for part := range strings.Lines(line) {
			fmt.Fprintln(&b, strings.TrimRight(part, " \n"))
		}
	}
	return b.String()
}

// printFlags prints the flags that are not hidden, under their headings.
func printFlags(w io.Writer, flags *pflag.FlagSet, width int) {
	titles := []string{first}
	sections := make(map[string]*pflag.FlagSet)
	flags.VisitAll(func(f *pflag.Flag) {
		title := first
		if of := f.Annotations[heading]; of != nil {
			title = of[0]
		}
		if f.Name == "help" {
			return
		}
		if sections[title] == nil {
			sections[title] = pflag.NewFlagSet("", pflag.ContinueOnError)
			sections[title].SortFlags = false
		}
		if !slices.Contains(titles, title) && title != last {
			titles = append(titles, title)
		}
		sections[title].AddFlag(f)
	})
	for _, title := range append(titles, last) {
		if section := sections[title]; section != nil && section.HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", title, section.FlagUsagesWrapped(width))
		}
	}
}

// printSubcommands prints which subcommands there are.
func (r *Root) printSubcommands(w io.Writer) {
	fmt.Fprint(w, "floodgate throttles callers of web servers by reading their request logs through Kafka.\n\nUsage: floodgate SUBCOMMAND [flags]\n")
	for _, g := range r.groups {
		fmt.Fprintf(w, "\n%s:\n", g.Title)
		for _, c := range g.Commands {
			fmt.Fprintf(w, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
	fmt.Fprint(w, "\nEach subcommand explains its flags: floodgate help SUBCOMMAND. A flag --some-name can also be given as FLOODGATE_SOME_NAME.\n")
}

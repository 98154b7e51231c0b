package command

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

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
	width := widthOf(w)
	if cmd.Runnable() {
		fmt.Fprint(w, hang("Usage: floodgate ", strings.TrimSuffix(path(cmd), cmd.Name())+cmd.Use, width))
	}
	if cmd.Long != "" {
		fmt.Fprint(w, "\n"+wrap(cmd.Long, width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w)
		for _, c := range cmd.Commands() {
			printSummary(w, c, width)
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExample:\n%s\n", commandLine(cmd.Example, width))
	}
	printFlags(w, cmd, width)
}

// defaultWidth is how many columns there are where nobody says, and minWidth is how many of them a text gets at least.
const defaultWidth, minWidth = 80, 24

// widthOf returns how many columns w has.
func widthOf(w io.Writer) int {
	if columns, _, ok := terminal.Size(w); ok {
		return columns
	}
	return defaultWidth
}

// hang breaks a text behind a heading. Its further lines begin below the first.
func hang(heading, body string, width int) string {
	indent := utf8.RuneCountInString(heading)
	lines := strings.TrimSuffix(wrap(body, max(minWidth, width-indent)), "\n")
	return heading + strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", indent)) + "\n"
}

// commandLine breaks a command line between its arguments, as a shell can read it. A flag and its value stay together.
func commandLine(line string, width int) string {
	const indent, end = "  ", ` \`
	var b strings.Builder
	column := 0
	for i, part := range argument.FindAllString(line, -1) {
		switch size := utf8.RuneCountInString(part); {
		case i == 0:
			b.WriteString(indent + part)
			column = len(indent) + size
		case column+1+size+len(end) > width:
			b.WriteString(end + "\n" + indent + indent + part)
			column = 2*len(indent) + size
		default:
			b.WriteString(" " + part)
			column += 1 + size
		}
	}
	return b.String()
}

// argument matches an argument of a command line, or a flag with its value.
var argument = regexp.MustCompile(`--\S+ (?:"[^"]*"|[^-\s]\S*)|\S+`)

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

// printFlags prints the flags that are not hidden, under their headings. Those that the usage names are needed, and come first.
func printFlags(w io.Writer, cmd *cobra.Command, width int) {
	titles := []string{first}
	sections := make(map[string]*pflag.FlagSet)
	var flags, others []*pflag.Flag
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if strings.Contains(cmd.Use, "--"+f.Name+" ") {
			flags = append(flags, f)
			return
		}
		others = append(others, f)
	})
	for _, f := range append(flags, others...) {
		title := first
		if of := f.Annotations[heading]; of != nil {
			title = of[0]
		}
		if f.Name == "help" {
			continue
		}
		if sections[title] == nil {
			sections[title] = pflag.NewFlagSet("", pflag.ContinueOnError)
			sections[title].SortFlags = false
		}
		if !slices.Contains(titles, title) && title != last {
			titles = append(titles, title)
		}
		sections[title].AddFlag(f)
	}
	for _, title := range append(titles, last) {
		if section := sections[title]; section != nil && section.HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", title, section.FlagUsagesWrapped(width))
		}
	}
}

// printSubcommands prints which subcommands there are.
func (r *Root) printSubcommands(w io.Writer) {
	width := widthOf(w)
	fmt.Fprint(w, wrap("floodgate throttles callers of web servers by reading their request logs through Kafka.\n\nUsage: floodgate SUBCOMMAND [flags]\n", width))
	for _, g := range r.groups {
		fmt.Fprintf(w, "\n%s:\n", g.Title)
		for _, c := range g.Commands {
			printSummary(w, c, width)
		}
	}
	fmt.Fprint(w, "\n"+wrap("Each subcommand explains its flags: floodgate help SUBCOMMAND. A flag --some-name can also be given as FLOODGATE_SOME_NAME.", width))
}

// printSummary prints the line of a subcommand in a list.
func printSummary(w io.Writer, c *cobra.Command, width int) {
	fmt.Fprint(w, hang(fmt.Sprintf("  %-11s ", c.Name()), c.Short, width))
}

package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/rules/rulesdiff"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// versionFlags are what show and diff of rules need to know.
type versionFlags struct {
	api clientFlags
	ids option.IDs
}

// rulesShow returns the subcommand that prints the text of the rules in force, of a version that was noted, or of a file as analyzers
// note it.
func rulesShow(p command.Process) *cobra.Command {
	var f versionFlags
	cmd := &cobra.Command{
		Use:               "show [ID|FILE] [flags]",
		Short:             "print a version, or the rules in force",
		Example:           "floodgate rules show > rules.yaml",
		Args:              command.Arguments(0, 1, "one id as rules versions shows it, one file, or nothing"),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.show(cmd.Context(), p, at(args, 0)) },
		ValidArgsFunction: f.api.completingArguments(p, versionIDs),
	}
	f.api.add(cmd)
	f.ids.Add(cmd)
	return cmd
}

// rulesVersions returns the subcommand that lists the versions that analyzers have noted.
func rulesVersions(p command.Process) *cobra.Command {
	var api clientFlags
	cmd := &cobra.Command{
		Use:     "versions [flags]",
		Short:   "list what analyzers have counted by",
		Example: "floodgate rules versions",
		Args:    command.FlagsOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listVersions(cmd.Context(), p, &api) },
	}
	api.add(cmd)
	return cmd
}

// isVersion reports whether an argument is the id of a version: 16 hexadecimal digits. All else is a file.
func isVersion(arg string) bool {
	id, err := strconv.ParseUint(arg, 16, 64)
	return err == nil && fmt.Sprintf("%016x", id) == arg
}

func (f *versionFlags) show(ctx context.Context, p command.Process, arg string) error {
	answer, err := f.shown(ctx, p, arg)
	if err != nil {
		return err
	}
	if f.api.output.JSON {
		if err := printable.JSON(p.Stdout).Encode(answer); err != nil {
			return err
		}
	} else if err := printText(p.Stdout, answer.Text); err != nil {
		return err
	}
	if answer.Problem != "" {
		return fmt.Errorf("rules show: version %s: %s", answer.ID, answer.Problem)
	}
	return nil
}

// shown returns what rules show prints.
func (f *versionFlags) shown(ctx context.Context, p command.Process, arg string) (*apiv1.Rules, error) {
	if arg == "" || isVersion(arg) {
		c, err := f.api.client()
		if err != nil {
			return nil, err
		}
		return rulesOf(ctx, c, "rules show", arg)
	}
	set, err := checkedRules(p, &f.ids, arg)
	if err != nil {
		return nil, fmt.Errorf("rules show: %w", err)
	}
	return &apiv1.Rules{ID: fmt.Sprintf("%016x", set.ID()), Text: string(set.Text()), Rules: []apiv1.Rule{}}, nil
}

// rulesOf returns a version; an empty id is that of the analyzer's own.
func rulesOf(ctx context.Context, c *client.Client, what, id string) (*apiv1.Rules, error) {
	query := url.Values{}
	if id != "" {
		query.Set("version", id)
	}
	var answer apiv1.Rules
	if err := c.Get(ctx, "/v1/rules", query, &answer); err != nil {
		return nil, apiError(what, err)
	}
	return &answer, nil
}

// printText prints a file as it is, or what of it is safe to print on a terminal.
func printText(w io.Writer, text string) error {
	if terminal.Is(w) {
		text = printable.Lines(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

func listVersions(ctx context.Context, p command.Process, api *clientFlags) error {
	var list apiv1.RulesVersions
	if err := api.get(ctx, "rules versions", "/v1/rules/versions", nil, &list); err != nil {
		return err
	}
	if api.output.JSON {
		return printable.JSON(p.Stdout).Encode(list)
	}
	if len(list.Versions) > 0 {
		t := terminal.NewTable(p.Stdout, "id", "since (UTC)", "first counted by", "file", "in use")
		for i := range list.Versions {
			v := &list.Versions[i]
			t.AppendRow(terminal.Cells(v.ID, when(v.Time), v.Author, v.Reason, usedText(v)))
		}
		t.Render()
	}
	return terminal.Lines(p.Stdout, terminal.Amount(len(list.Versions), "version")+". To go back to one, put its text into the rules file: floodgate rules show ID > rules.yaml")
}

// usedText says which partitions are counted by a version.
func usedText(v *apiv1.RulesVersion) string {
	switch {
	case len(v.Partitions) > 0:
		return "partitions " + numbers(v.Partitions...)
	case v.InUse:
		return "here, by no partition yet"
	}
	return ""
}

// numbers returns a list of numbers for people.
func numbers(list ...int) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

// knownRules returns a version as rules diff compares it: a file, a version that was noted, or, for an empty arg, the rules in force.
func (f *versionFlags) knownRules(ctx context.Context, p command.Process, arg string) (*rules.Set, error) {
	if arg != "" && !isVersion(arg) {
		set, err := checkedRules(p, &f.ids, arg)
		if err != nil {
			return nil, fmt.Errorf("rules diff: %w", err)
		}
		return set, nil
	}
	c, err := f.api.client()
	if err != nil {
		return nil, err
	}
	answer, err := rulesOf(ctx, c, "rules diff", arg)
	if err != nil {
		return nil, err
	}
	switch {
	case answer.Problem != "":
		return nil, fmt.Errorf("rules diff: version %s: %s", answer.ID, answer.Problem)
	case answer.Text == "":
		return nil, fmt.Errorf("rules diff: version %s: the API hides texts from this token; compare two ids, or use a token of role operate", answer.ID)
	}
	ids, err := f.ids.Load()
	if err != nil {
		return nil, err
	}
	// A text of an analyzer has hashes in place of secret ids: it is read without secrets.
	ids.Hash = nil
	set, err := rules.ParseWith("version "+answer.ID, []byte(answer.Text), ids)
	if err != nil {
		return nil, fmt.Errorf("rules diff: %w", err)
	}
	return set, nil
}

// rulesDiff returns the subcommand that prints what differs between two versions or files, or between the rules in force and one of these.
func rulesDiff(p command.Process) *cobra.Command {
	var f versionFlags
	cmd := &cobra.Command{
		Use:               "diff [ID|FILE] ID|FILE [flags]",
		Short:             "say rule by rule what changes",
		Long:              "Says rule by rule what changes from one version or file to another, or from the rules in force, and whether counts stay.",
		Example:           "floodgate rules diff rules.yaml",
		Args:              command.Arguments(1, 2, "one or two ids as rules versions shows them, or files"),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.diff(cmd.Context(), p, args) },
		ValidArgsFunction: f.api.completing(p, versionIDs),
	}
	f.api.add(cmd)
	f.ids.Add(cmd)
	return cmd
}

func (f *versionFlags) diff(ctx context.Context, p command.Process, args []string) error {
	if len(args) == 1 {
		args = []string{"", args[0]}
	}
	if args[0] == "-" && args[1] == "-" {
		return command.Usagef("rules diff: got standard input twice, want it once")
	}
	d, err := f.difference(ctx, p, args[0], args[1])
	if err != nil {
		return err
	}
	if f.api.output.JSON {
		return printable.JSON(p.Stdout).Encode(d)
	}
	return terminal.Lines(p.Stdout, diffLines(d)...)
}

// difference asks the API where both are versions, so that also a token that sees no texts gets an answer.
func (f *versionFlags) difference(ctx context.Context, p command.Process, from, to string) (*apiv1.RulesDiff, error) {
	if (from == "" || isVersion(from)) && isVersion(to) {
		query := url.Values{"to": {to}}
		if from != "" {
			query.Set("from", from)
		}
		var d apiv1.RulesDiff
		return &d, f.api.get(ctx, "rules diff", "/v1/rules/diff", query, &d)
	}
	before, err := f.knownRules(ctx, p, from)
	if err != nil {
		return nil, err
	}
	after, err := f.knownRules(ctx, p, to)
	if err != nil {
		return nil, err
	}
	return rulesdiff.Compare(before, after), nil
}

// diffLines returns a difference for people.
func diffLines(d *apiv1.RulesDiff) []string {
	lines := []string{fmt.Sprintf("from %s to %s", d.From, d.To)}
	for i := range d.Rules {
		r := &d.Rules[i]
		lines = append(lines, fmt.Sprintf("%s: %s; %s", printable.Of(r.Rule), printable.Of(r.Change), countsText(r)))
		for _, f := range r.Fields {
			lines = append(lines, "  "+changeText(f.Field, f.Before, f.After))
		}
		for _, o := range r.Overrides {
			lines = append(lines, "  "+changeText("override "+o.Of, o.Before, o.After))
		}
	}
	switch {
	case d.Same:
		return append(lines, "no difference")
	case d.Reordered:
		lines = append(lines, "the rules have another order")
	}
	if d.Unchanged > 0 {
		lines = append(lines, terminal.Amount(d.Unchanged, "rule")+" unchanged")
	}
	return lines
}

// changeText says what one thing was and is; a rule that is new or gone has only one of both.
func changeText(what, before, after string) string {
	return fmt.Sprintf("%s: %s -> %s", printable.Of(what), printable.Of(cmp.Or(before, "none")), printable.Of(cmp.Or(after, "none")))
}

// countsText says what becomes of a rule's counts.
func countsText(r *apiv1.RuleDiff) string {
	switch {
	case r.Counts == apiv1.CountsKept:
		return "counts stay"
	case r.Counts == apiv1.CountsOfMatching:
		return "counts stay, but those of callers that the pattern does not match are dropped, and what was closed of them opens"
	case r.Counts == apiv1.CountsStart && r.Change == apiv1.DiffAdded:
		return "counts start from zero"
	case r.Counts == apiv1.CountsStart:
		return "it counts something else than before: counts start from zero, and what it closed opens"
	case r.Counts == apiv1.CountsDropped:
		return "its counts are dropped, and what it closed opens"
	}
	return string(printable.Of(strings.ReplaceAll(r.Counts, "_", " "))) // of a later version
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules/rulesdiff"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

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
	return printLines(p.Stdout, diffLines(d)...)
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
		lines = append(lines, fmt.Sprintf("%d rules are the same", d.Unchanged))
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

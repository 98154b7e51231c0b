package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas"
)

// versionFlags are what show, versions and diff of rules need to know.
type versionFlags struct {
	api *clientFlags
	ids *idFlags
}

// rulesCommands are the commands of rules beside check. All but those about files only ask an analyzer.
func rulesCommands() map[string]func(context.Context, process, versionFlags, []string) error {
	return map[string]func(context.Context, process, versionFlags, []string) error{"show": showRules, "versions": listRules, "diff": diffRules}
}

// isVersion reports whether an argument is the id of a version: 16 hexadecimal digits. All else is a file.
func isVersion(arg string) bool {
	id, err := strconv.ParseUint(arg, 16, 64)
	return err == nil && fmt.Sprintf("%016x", id) == arg
}

// showRules prints the text of the rules in force, of a version that was noted, or of a file as analyzers note it.
func showRules(ctx context.Context, p process, f versionFlags, args []string) error {
	if len(args) > 1 {
		return usagef("rules show: got %q, want one id as rules versions shows it, one file, or nothing", args)
	}
	answer, err := f.shown(ctx, p, first(args))
	if err != nil {
		return err
	}
	if f.api.output.json {
		if err := printable.JSON(p.stdout).Encode(answer); err != nil {
			return err
		}
	} else if err := printText(p.stdout, answer.Text); err != nil {
		return err
	}
	if answer.Problem != "" {
		return fmt.Errorf("rules show: version %s: %s", answer.ID, answer.Problem)
	}
	return nil
}

// shown returns what rules show prints.
func (f versionFlags) shown(ctx context.Context, p process, arg string) (*apiv1.Rules, error) {
	if arg == "" || isVersion(arg) {
		c, err := f.api.client()
		if err != nil {
			return nil, err
		}
		return rulesOf(ctx, c, "rules show", arg)
	}
	set, err := checkedRules(p, f.ids, arg)
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

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// listRules lists the versions that analyzers have noted.
func listRules(ctx context.Context, p process, f versionFlags, args []string) error {
	if len(args) > 0 {
		return usagef("rules versions: got %q, want flags only", args)
	}
	var list apiv1.RulesVersions
	if err := f.api.get(ctx, "rules versions", "/v1/rules/versions", nil, &list); err != nil {
		return err
	}
	if f.api.output.json {
		return printable.JSON(p.stdout).Encode(list)
	}
	if len(list.Versions) > 0 {
		t := terminal.NewTable(p.stdout, "id", "since (UTC)", "first counted by", "file", "in use")
		for i := range list.Versions {
			v := &list.Versions[i]
			t.AppendRow(terminal.Cells(v.ID, when(v.Time), v.Author, v.Reason, usedText(v)))
		}
		t.Render()
	}
	return printLines(p.stdout, terminal.Amount(len(list.Versions), "version")+". To go back to one, put its text into the rules file: floodgate rules show ID > rules.yaml")
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
func (f versionFlags) knownRules(ctx context.Context, p process, arg string) (*rules.Set, error) {
	if arg != "" && !isVersion(arg) {
		set, err := checkedRules(p, f.ids, arg)
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
	ids, err := f.ids.load()
	if err != nil {
		return nil, err
	}
	// A text of an analyzer has hashes in place of secret ids: it is read without secrets.
	set, err := rules.ParseWith("version "+answer.ID, []byte(answer.Text), schemas.IDs{IPv6Prefix: ids.IPv6Prefix})
	if err != nil {
		return nil, fmt.Errorf("rules diff: %w", err)
	}
	return set, nil
}

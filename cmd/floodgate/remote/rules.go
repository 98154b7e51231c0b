package remote

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// Rules checks, shows and compares rules.
func Rules(p command.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "check a rules file; show and compare the versions in force",
		Long: "Each rules file that analyzers have counted by is a version. Its id is 16 hexadecimal digits; in place of an id, each of these takes a file, too, " +
			"and - is standard input. Only what is about files alone asks no analyzer.",
		Example: "floodgate rules check rules.yaml",
		Args:    cobra.ArbitraryArgs,
		RunE:    command.WantSubcommand,
	}
	cmd.AddCommand(rulesCheck(p), rulesShow(p), rulesVersions(p), rulesDiff(p))
	return cmd
}

// rulesCheck returns the subcommand that says how files are understood.
func rulesCheck(p command.Process) *cobra.Command {
	var ids option.IDs
	var output command.Output
	cmd := &cobra.Command{
		Use:     "check [flags] FILE...",
		Short:   "say how each file is understood, or what is wrong with it",
		Example: "floodgate rules check rules.yaml",
		Args:    command.Arguments(1, command.Unbounded, "one file or more; - is standard input"),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := ids.Load(); err != nil {
				return err
			}
			return checkRules(p, &ids, args, output.JSON)
		},
	}
	output.Add(cmd)
	ids.Add(cmd)
	return cmd
}

// checkRules says of each file how it is understood.
func checkRules(p command.Process, ids *option.IDs, files []string, asJSON bool) error {
	bad := 0
	for _, path := range files {
		set, err := checkedRules(p, ids, path)
		if err != nil {
			bad++
		}
		if err := printCheck(p, asJSON, checkName(path), set, err); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("rules check: %d of %d files cannot be used", bad, len(files))
	}
	return nil
}

// stdinName is what standard input is called in messages and results.
const stdinName = "standard input"

// checkedRules loads one file of rules check; "-" is standard input.
func checkedRules(p command.Process, ids *option.IDs, path string) (*rules.Set, error) {
	if path != "-" {
		return ids.Rules(path)
	}
	data, err := io.ReadAll(io.LimitReader(p.Stdin, document.MaxFile+1)) // one byte more than Parse takes
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	made, err := ids.Load()
	if err != nil {
		return nil, err
	}
	return rules.ParseWith(stdinName, data, made)
}

// checkName returns how a file of rules check is called in results.
func checkName(path string) string {
	if path == "-" {
		return stdinName
	}
	return path
}

// ruleCheck is what rules check prints of one file.
type ruleCheck struct {
	Type     string    `json:"type"` // rules
	File     string    `json:"file"`
	OK       bool      `json:"ok"`
	ID       string    `json:"id,omitempty"`
	Rules    []string  `json:"rules,omitempty"`
	Errors   []problem `json:"errors,omitempty"`
	Warnings []problem `json:"warnings,omitempty"`
}

// problem is one error or warning, with its place in the file.
type problem struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

func printCheck(p command.Process, asJSON bool, path string, set *rules.Set, err error) error {
	if asJSON {
		return printable.JSON(p.Stdout).Encode(checkOf(path, set, err))
	}
	if err != nil {
		_, werr := fmt.Fprintln(p.Stdout, checkText(err))
		return werr
	}
	printRules(p.Stdout, set)
	for _, w := range set.Warnings {
		fmt.Fprintf(p.Stdout, "warning: %s\n", printable.Error(w))
	}
	_, werr := fmt.Fprintf(p.Stdout, "%s: ok, %s, id %016x\n", printable.Of(path), terminal.Amount(len(set.Rules), "rule"), set.ID())
	return werr
}

// printRules prints a table of rules, and which of them need to know when requests begin. The table has a column of what requests in flight
// hold if any rule says it.
func printRules(out io.Writer, set *rules.Set) {
	columns := []any{"rule", "callers", "match", "limit", "window", "close for", "overrides", "mode"}
	hold := slices.ContainsFunc(set.Rules, func(r *rules.Rule) bool { return r.Hold != nil })
	if hold {
		columns = append(columns, "hold")
	}
	t := terminal.NewTable(out, columns...)
	for _, r := range set.Rules {
		cells := []any{r.Name, r.CallersText(), r.Match.Text(), limitText(r), windowText(r), r.CloseText(), overridesText(r.OverrideTexts()), modeText(r)}
		if hold {
			cells = append(cells, r.HoldText())
		}
		t.AppendRow(terminal.Cells(cells...))
	}
	t.Render()
	for _, r := range set.Rules {
		if r.FollowsRequests() {
			fmt.Fprintf(out, "note: %s needs an entry of each request when it begins: from servers with record.Options{Holds: true}, "+
				"sidecars with --record --holds, or logs with a line then. Logs of ended requests alone hold nothing\n", r.Name)
		}
	}
}

// windowText returns a rule's window, and when a cost counts in it.
func windowText(r *rules.Rule) string {
	if charge := r.ChargeText(); charge != "" {
		return r.WindowText() + ", charge " + charge
	}
	return r.WindowText()
}

// limitText returns a rule's limit, and what it counts where that is not requests; or the capacity of all callers.
func limitText(r *rules.Rule) string {
	if r.Pool != nil {
		return fmt.Sprintf("%d of all callers, protect %s", r.Limit, r.Pool.ProtectText())
	}
	text := r.Measure.Amount(r.Limit)
	if r.Measure == rules.Responses {
		text += " " + r.Measure.String()
	}
	if r.CountBlocked {
		text += ", blocked too"
	}
	return text
}

// modeText returns a rule's mode, and what is predicted where that is not all.
func modeText(r *rules.Rule) string {
	if r.Predict == rules.PredictShares || r.Pool != nil {
		return r.Mode.String()
	}
	return r.Mode.String() + ", predict " + r.Predict.String()
}

// shownOverrides is how many overrides of a rule the table shows.
const shownOverrides = 3

// overridesText returns the first overrides, and how many there are besides.
func overridesText(all []string) string {
	shown := strings.Join(all[:min(len(all), shownOverrides)], ", ")
	if more := len(all) - shownOverrides; more > 0 {
		shown += fmt.Sprintf(", and %d more", more)
	}
	return shown
}

// checkText returns what is wrong with a file, a line for each mistake in it.
func checkText(err error) string {
	var all document.Errors
	if !errors.As(err, &all) {
		return printable.Error(err)
	}
	var lines []string
	for _, e := range all {
		lines = append(lines, printable.Error(e))
	}
	return strings.Join(lines, "\n")
}

func checkOf(path string, set *rules.Set, err error) ruleCheck {
	c := ruleCheck{Type: "rules", File: path, OK: err == nil}
	if err != nil {
		c.Errors = problems(err)
		return c
	}
	c.ID = fmt.Sprintf("%016x", set.ID())
	for _, r := range set.Rules {
		c.Rules = append(c.Rules, r.Name)
	}
	for _, w := range set.Warnings {
		c.Warnings = append(c.Warnings, problem{w.Line, w.Column, w.Msg})
	}
	return c
}

// problems returns the single problems in an error of rules.Load.
func problems(err error) []problem {
	var all document.Errors
	if !errors.As(err, &all) {
		return []problem{{Message: err.Error()}}
	}
	var list []problem
	for _, e := range all {
		list = append(list, problem{e.Line, e.Column, e.Msg})
	}
	return list
}

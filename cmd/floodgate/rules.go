package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// runRules runs a command of rules: check reads files, and the others ask an analyzer.
func runRules(ctx context.Context, p process, args []string) error {
	flags := newFlags("rules check [flags] FILE...\n       floodgate rules show [ID|FILE] | versions | diff [ID|FILE] ID|FILE [flags]\n\n" +
		"check says how each file is understood, or what is wrong with it. versions lists what analyzers have counted by. show prints a version, or the\n" +
		"rules in force. diff says rule by rule what changes from one version or file to another, or from the rules in force, and whether counts stay.\n" +
		"An ID is 16 hexadecimal digits; all else is a file, and - is standard input. Only what is about files alone asks no analyzer.")
	var api clientFlags
	var ids idFlags
	ids.add(flags)
	api.add(flags)
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if ask := rulesCommands()[flags.Arg(0)]; ask != nil {
		return ask(ctx, p, versionFlags{&api, &ids}, flags.Args()[1:])
	}
	if flags.NArg() < 2 || flags.Arg(0) != "check" {
		return usagef("rules: got %q, want check and one file or more (- is standard input), or show, versions or diff", flags.Args())
	}
	if _, err := ids.load(); err != nil {
		return err
	}
	return checkRules(p, &ids, flags.Args()[1:], api.output.json)
}

// checkRules says of each file how it is understood.
func checkRules(p process, ids *idFlags, files []string, asJSON bool) error {
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
func checkedRules(p process, ids *idFlags, path string) (*rules.Set, error) {
	if path != "-" {
		return ids.rules(path)
	}
	data, err := io.ReadAll(io.LimitReader(p.stdin, document.MaxFile+1)) // one byte more than Parse takes
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	made, err := ids.load()
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

func printCheck(p process, asJSON bool, path string, set *rules.Set, err error) error {
	if asJSON {
		return printable.JSON(p.stdout).Encode(checkOf(path, set, err))
	}
	if err != nil {
		_, werr := fmt.Fprintln(p.stdout, checkText(err))
		return werr
	}
	t := terminal.NewTable(p.stdout, "rule", "callers", "match", "limit", "window", "close for", "overrides", "mode")
	for _, r := range set.Rules {
		t.AppendRow(terminal.Cells(r.Name, r.CallersText(), r.Match.Text(), limitText(r), r.WindowText(), r.CloseText(), overridesText(r.OverrideTexts()), modeText(r)))
	}
	t.Render()
	for _, w := range set.Warnings {
		fmt.Fprintf(p.stdout, "warning: %s\n", printable.Error(w))
	}
	_, werr := fmt.Fprintf(p.stdout, "%s: ok, %d rules, id %016x\n", printable.Of(path), len(set.Rules), set.ID())
	return werr
}

// limitText returns a rule's limit, and what it counts where that is not requests.
func limitText(r *rules.Rule) string {
	text := strconv.FormatInt(r.Limit, 10)
	if r.Measure != rules.Requests {
		text += " " + r.Measure.String()
	}
	if r.CountBlocked {
		text += ", blocked too"
	}
	return text
}

// modeText returns a rule's mode, and what is predicted where that is not all.
func modeText(r *rules.Rule) string {
	if r.Predict == rules.PredictShares {
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

// logWarnings logs the warnings about the rules of a daemon.
func logWarnings(logger *slog.Logger, set *rules.Set) {
	for _, w := range set.Warnings {
		logger.Warn("rules", "warning", w.Error())
	}
}

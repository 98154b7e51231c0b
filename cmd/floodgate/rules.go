package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// runRules has one word of its own so far: check.
func runRules(_ context.Context, p process, args []string) error {
	flags := newFlags("rules check [flags] FILE...")
	var out outputFlag
	flags.Var(&out, "output", "table or json")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if flags.NArg() < 2 || flags.Arg(0) != "check" {
		return usagef("rules: got %q, want check and one file or more", flags.Args())
	}
	bad := 0
	for _, path := range flags.Args()[1:] {
		set, err := rules.Load(path)
		if err != nil {
			bad++
		}
		if err := printCheck(p, out.json, path, set, err); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("rules check: %d of %d files are not usable", bad, flags.NArg()-1)
	}
	return nil
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
		return json.NewEncoder(p.stdout).Encode(checkOf(path, set, err))
	}
	if err != nil {
		_, werr := fmt.Fprintln(p.stdout, err)
		return werr
	}
	t := table.NewWriter()
	t.SetOutputMirror(p.stdout)
	t.AppendHeader(table.Row{"rule", "callers", "limit", "window", "mode"})
	for _, r := range set.Rules {
		t.AppendRow(table.Row{r.Name, r.Kind, r.Limit, r.Window.Shape(), r.Mode})
	}
	t.Render()
	for _, w := range set.Warnings {
		fmt.Fprintf(p.stdout, "warning: %v\n", w)
	}
	_, werr := fmt.Fprintf(p.stdout, "%s: ok, %d rules, id %016x\n", path, len(set.Rules), set.ID())
	return werr
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

// problems takes an error of rules.Load apart.
func problems(err error) []problem {
	var all rules.Errors
	if !errors.As(err, &all) {
		return []problem{{Message: err.Error()}}
	}
	var list []problem
	for _, e := range all {
		list = append(list, problem{e.Line, e.Column, e.Msg})
	}
	return list
}

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// runTry asks whether requests would pass.
func runTry(ctx context.Context, p process, args []string) error {
	flags := newFlags("try CALLER... [flags]\n\nSays whether requests of these callers would pass now, which rule would close them, and until when. It counts nothing.\n" +
		"If you give several callers, each request has all of them, such as an address and a key.")
	var api clientFlags
	var q apiv1.TryRequest
	var file string
	flags.StringVar(&q.Resource, "resource", "", "resource of each request, such as \"GET /search\"")
	flags.IntVar(&q.Status, "status", 0, "status of each response, for rules that match statuses (default 200)")
	flags.Int64Var(&q.Cost, "cost", 0, "cost of each request, for rules that measure cost")
	flags.Int64Var(&q.Count, "count", 1, "number of requests, one after the other")
	flags.StringVar(&file, "rules", "", "rules `file` to try, in place of the rules in force")
	api.add(flags)
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if q.Count < 1 {
		return usagef("--count: got %d, want 1 or more", q.Count)
	}
	if flags.NArg() == 0 {
		return usagef("try: got no caller, want one or more, such as ip:203.0.113.9")
	}
	for _, text := range flags.Args() {
		c, err := callerArg("try", text)
		if err != nil {
			return err
		}
		q.Callers = append(q.Callers, apiv1.CallerOf(c))
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("try: %w", err)
		}
		q.Rules = string(text)
	}
	c, err := api.client()
	if err != nil {
		return err
	}
	var answer apiv1.TryAnswer
	if _, err := c.Post(ctx, "/v1/try", q, nil, &answer); err != nil {
		return apiError("try", err)
	}
	if api.output.json {
		return printable.JSON(p.stdout).Encode(answer)
	}
	return printTry(p, &answer)
}

func printTry(p process, answer *apiv1.TryAnswer) error {
	t := terminal.NewTable(p.stdout, "caller", "rule", "mode", "before", "after", "limit", "passes", "closed until (UTC)")
	rows := 0
	for i := range answer.Callers {
		c := &answer.Callers[i]
		for j := range c.Rules {
			r := &c.Rules[j]
			limit, until := strconv.FormatInt(r.Limit, 10), ""
			if r.Unlimited {
				limit = "none"
			}
			if r.Closed || r.Closes {
				until = when(r.Until)
			}
			t.AppendRow(terminal.Cells(terminal.Caller(callerText(c.Caller)), r.Rule, r.Mode, r.Before, r.After, limit, r.Admitted, until))
			rows++
		}
	}
	if rows > 0 {
		t.Render()
	}
	return printLines(p.stdout, sentence(answer.Sentence))
}

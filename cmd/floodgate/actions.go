package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// runActions lists what was done by hand.
func runActions(ctx context.Context, p process, args []string) error {
	flags := newFlags("actions [flags]\n\nLists what was done by hand, by whom and why, the newest first.")
	var api clientFlags
	var caller, action, state string
	var limit int
	flags.StringVar(&caller, "caller", "", "only about this `caller`")
	flags.StringVar(&action, "action", "", "only this action: close, open, limit, reset, mode or undo")
	flags.StringVar(&state, "state", "", "only actions in this state: waiting, in_force, done, ended or undone")
	flags.IntVar(&limit, "limit", 50, "how many to list, 1 to 1000")
	api.add(flags)
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if caller != "" {
		c, err := callerArg("--caller", caller)
		if err != nil {
			return err
		}
		query.Set("caller", c.String())
	}
	if action != "" {
		query.Set("action", action)
	}
	if state != "" {
		query.Set("state", state)
	}
	var list apiv1.ActionList
	if err := api.get(ctx, "actions", "/v1/actions", query, &list); err != nil {
		return err
	}
	if api.output.json {
		return printable.JSON(p.stdout).Encode(list)
	}
	if len(list.Actions) > 0 {
		t := terminal.NewTable(p.stdout, "time (UTC)", "who", "what", "state", "why", "id")
		for i := range list.Actions {
			a := &list.Actions[i]
			t.AppendRow(terminal.Cells(when(a.Time), a.Author, printable.Text(actionText(a)), stateText(a), a.Reason, a.ID))
		}
		t.Render()
	}
	text := terminal.Amount(len(list.Actions), "record")
	if list.Next != "" {
		text += "; there are more: see --limit"
	}
	return printLines(p.stdout, text)
}

// stateText says how a record stands, and who undid it.
func stateText(a *apiv1.Action) string {
	switch {
	case a.UndoneBy != nil:
		return fmt.Sprintf("undone by %s at %s: %s", a.UndoneBy.Author, when(a.UndoneBy.Time), a.UndoneBy.Reason)
	case a.State == apiv1.StateInForce:
		return "in force"
	}
	return a.State
}

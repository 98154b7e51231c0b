package remote

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// Actions lists what was done by hand.
func Actions(p command.Process) *cobra.Command {
	var api clientFlags
	var q actionsQuery
	cmd := &cobra.Command{
		Use:     "actions [flags]",
		Short:   "list what was done by hand, by whom and why",
		Long:    "Lists what was done by hand, by whom and why, the newest first.",
		Example: "floodgate actions --state in_force",
		Args:    command.FlagsOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return q.run(cmd.Context(), p, &api) },
	}
	flags := cmd.Flags()
	flags.StringVar(&q.caller, "caller", "", "only about this `caller`")
	flags.StringVar(&q.action, "action", "", "only this action: close, open, limit, reset, mode or undo")
	flags.StringVar(&q.state, "state", "", "only actions in this state: waiting, in_force, done, ended or undone")
	flags.IntVar(&q.limit, "limit", 50, "how many to list, 1 to 1000")
	api.add(cmd)
	command.Complete(cmd, "caller", api.completing(p, closedCallers))
	command.Words(cmd, "action", "close", "open", "limit", "reset", "mode", "undo")
	command.Words(cmd, "state", apiv1.StateWaiting, apiv1.StateInForce, apiv1.StateDone, apiv1.StateEnded, apiv1.StateUndone)
	return cmd
}

// actionsQuery is which actions to list.
type actionsQuery struct {
	caller, action, state string
	limit                 int
}

func (q *actionsQuery) run(ctx context.Context, p command.Process, api *clientFlags) error {
	query := url.Values{"limit": {strconv.Itoa(q.limit)}}
	if q.caller != "" {
		c, err := callerArg("--caller", q.caller)
		if err != nil {
			return err
		}
		query.Set("caller", c.String())
	}
	if q.action != "" {
		query.Set("action", q.action)
	}
	if q.state != "" {
		query.Set("state", q.state)
	}
	var list apiv1.ActionList
	if err := api.get(ctx, "actions", "/v1/actions", query, &list); err != nil {
		return err
	}
	if api.output.JSON {
		return printable.JSON(p.Stdout).Encode(list)
	}
	if len(list.Actions) > 0 {
		t := terminal.NewTable(p.Stdout, "time (UTC)", "who", "what", "state", "why", "id")
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
	return terminal.Lines(p.Stdout, text)
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

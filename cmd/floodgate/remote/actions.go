package remote

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
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
		Long:    "Lists what was done by hand, by whom and why: first all that is in force, then the newest of the rest.",
		Example: "floodgate actions --state in_force",
		Args:    command.FlagsOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return q.run(cmd.Context(), p, &api) },
	}
	flags := cmd.Flags()
	flags.StringVar(&q.caller, "caller", "", "only about this `caller`")
	flags.StringVar(&q.action, "action", "", "only this action: close, open, limit, reset, mode or undo")
	flags.StringVar(&q.state, "state", "", "only actions in this state: waiting, in_force, done, ended or undone")
	flags.IntVar(&q.limit, "limit", 50, "how many to list besides what is in force, 1 to 1000")
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
	list, err := q.list(ctx, api, query)
	if err != nil {
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

// list returns the records that the query wants. Unless it wants those of one state, all that are in force come first, however many and
// however old they are.
func (q *actionsQuery) list(ctx context.Context, api *clientFlags, query url.Values) (list apiv1.ActionList, err error) {
	var standing []apiv1.Action
	if q.state == "" {
		for _, state := range []string{apiv1.StateWaiting, apiv1.StateInForce} {
			if standing, err = appendAll(ctx, api, query, state, standing); err != nil {
				return list, err
			}
		}
		slices.SortFunc(standing, func(a, b apiv1.Action) int { return cmp.Compare(b.Offset, a.Offset) })
	}
	if err := api.get(ctx, "actions", "/v1/actions", query, &list); err != nil {
		return list, err
	}
	rest := slices.DeleteFunc(list.Actions, func(a apiv1.Action) bool {
		return slices.ContainsFunc(standing, func(s apiv1.Action) bool { return s.ID == a.ID })
	})
	list.Actions = append(standing, rest...)
	return list, nil
}

// appendAll appends all records of a state that the query wants, the newest first.
func appendAll(ctx context.Context, api *clientFlags, query url.Values, state string, all []apiv1.Action) ([]apiv1.Action, error) {
	query = maps.Clone(query)
	query.Set("state", state)
	query.Set("limit", "1000")
	for {
		var page apiv1.ActionList
		if err := api.get(ctx, "actions", "/v1/actions", query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Actions...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}

// stateText says how a record stands, and who undid it.
func stateText(a *apiv1.Action) string {
	switch {
	case a.UndoneBy != nil:
		return fmt.Sprintf("undone by %s at %s: %s", a.UndoneBy.Author, whenUTC(a.UndoneBy.Time), a.UndoneBy.Reason)
	case a.State == apiv1.StateInForce:
		return "in force"
	}
	return a.State
}

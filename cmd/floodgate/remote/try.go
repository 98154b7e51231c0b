package remote

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas/event"
)

// Try asks whether requests would pass.
func Try(p command.Process) *cobra.Command {
	var api clientFlags
	var q apiv1.TryRequest
	var file string
	cmd := &cobra.Command{
		Use:   "try CALLER... [flags]",
		Short: "say whether requests would pass, without counting them",
		Long: "Says whether requests of these callers would pass now, which rule would close them, and until when. It counts nothing. " +
			"If you give several callers, each request has all of them, such as an address and a key.",
		Example:           "floodgate try ip:203.0.113.9 --resource \"GET /search\" --count 5",
		RunE:              func(cmd *cobra.Command, args []string) error { return try(cmd.Context(), p, &api, q, file, args) },
		ValidArgsFunction: api.completing(p, closedCallers),
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Resource, "resource", "", "resource of each request, such as \"GET /search\"")
	flags.IntVar(&q.Status, "status", 0, "status of each response, for rules that match statuses (default 200)")
	flags.Int64Var(&q.Cost, "cost", 0, "cost of each request, for rules that measure cost; under a rule with holds, what its server declares")
	flags.Int64Var(&q.Count, "count", 1, "number of requests, one after the other")
	flags.StringVar(&file, "rules", "", "rules `file` to try, in place of the rules in force")
	api.add(cmd)
	return cmd
}

func try(ctx context.Context, p command.Process, api *clientFlags, q apiv1.TryRequest, file string, callers []string) error {
	if q.Count < 1 {
		return command.Usagef("--count: got %d, want 1 or more", q.Count)
	}
	if len(callers) == 0 {
		return command.Usagef("try: got no caller, want one or more, such as ip:203.0.113.9")
	}
	for _, text := range callers {
		c, err := callerArg("try", text)
		if err != nil {
			return err
		}
		q.Callers = append(q.Callers, event.CallerOf(c))
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
	if api.output.JSON {
		return printable.JSON(p.Stdout).Encode(answer)
	}
	var words ruleWords
	if file == "" { // the rules in force are those that were tried
		words = askRuleWords(ctx, c)
	}
	return printTry(p, &answer, words)
}

// weightCell returns how much of a limit is counted, and held by requests in flight.
func weightCell(count int64, room *apiv1.Room) any {
	if room == nil {
		return count
	}
	return fmt.Sprintf("%d + %d held", count, room.Held+room.Margin)
}

func printTry(p command.Process, answer *apiv1.TryAnswer, words ruleWords) error {
	t := terminal.NewTable(p.Stdout, "caller", "rule", "mode", "before", "after", "limit", "passes", "closed until (UTC)")
	rows := 0
	for i := range answer.Callers {
		c := &answer.Callers[i]
		for j := range c.Rules {
			r := &c.Rules[j]
			limit, until := words.amount(r.Rule, r.Limit), ""
			if r.Unlimited {
				limit = "none"
			}
			switch {
			case !r.Closed && !r.Closes:
			case r.Until.IsZero():
				until = "there is room"
			default:
				until = when(r.Until)
			}
			t.AppendRow(terminal.Cells(terminal.Caller(callerText(c.Caller)), r.Rule, r.Mode, weightCell(r.Before, r.RoomBefore), weightCell(r.After, r.RoomAfter), limit, r.Admitted, until))
			rows++
		}
	}
	if rows > 0 {
		t.Render()
	}
	return terminal.Lines(p.Stdout, sentence(answer.Sentence))
}

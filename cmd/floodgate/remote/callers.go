package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// callersQuery is which callers to list, in which order.
type callersQuery struct {
	sort     string
	rule     string
	kind     string
	prefix   string
	network  string
	minShare float64
	limit    int
	all      bool

	words ruleWords // of the rules, once it is asked
}

func (q *callersQuery) add(p command.Process, cmd *cobra.Command, api *clientFlags, sort string, limit int) {
	flags := cmd.Flags()
	flags.StringVar(&q.sort, "sort", sort, "order: share (of the limit), count, rate (of requests) or blocked (requests)")
	flags.StringVar(&q.rule, "rule", "", "only callers under this rule; needs --sort share or count")
	flags.StringVar(&q.kind, "kind", "", "only callers of this kind, such as ip or key")
	flags.StringVar(&q.prefix, "prefix", "", "only callers whose id begins with this text")
	flags.StringVar(&q.network, "network", "", "only callers of kinds ip and net in this `network`, such as 198.51.100.0/24")
	flags.Float64Var(&q.minShare, "min-share", 0, "only callers that have used at least this share of their limit: 0.8 is 80 %; needs --sort share or count")
	flags.IntVar(&q.limit, "limit", limit, "how many to list, 1 to 1000")
	command.Words(cmd, "sort", sorts()...)
	command.Complete(cmd, "rule", api.completing(p, rulesNames))
}

// sorts are the orders of lists of callers.
func sorts() []string { return []string{"share", "count", "rate", "blocked"} }

// byDemand reports whether the list is of the busiest callers, and not of rows.
func (q *callersQuery) byDemand() bool { return q.sort == "rate" || q.sort == "blocked" }

func (q *callersQuery) check() error {
	if !slices.Contains(sorts(), q.sort) {
		return command.Usagef("--sort: got %q, want share, count, rate or blocked", q.sort)
	}
	if q.limit < 1 || q.limit > 1000 {
		return command.Usagef("--limit: got %d, want 1 to 1000", q.limit)
	}
	if q.byDemand() && (q.rule != "" || q.minShare != 0) {
		return command.Usagef("--rule, --min-share: got them with --sort %s, want --sort share or count: demand is measured for callers, whatever rules count", q.sort)
	}
	return nil
}

func (q *callersQuery) values() url.Values {
	v := url.Values{"sort": {q.sort}, "limit": {strconv.Itoa(q.limit)}}
	for name, value := range map[string]string{"rule": q.rule, "kind": q.kind, "prefix": q.prefix, "network": q.network} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.minShare != 0 {
		v.Set("min_share", strconv.FormatFloat(q.minShare, 'g', -1, 64))
	}
	return v
}

// Callers lists callers.
func Callers(p command.Process) *cobra.Command {
	var query callersQuery
	var api clientFlags
	cmd := &cobra.Command{
		Use:   "callers [flags]",
		Short: "list callers by share of their limits, count, rate or blocked requests",
		Long: "Lists the callers of all partitions that are nearest to their limits, or that are busiest. With --all it lists all callers that are " +
			"counted, each once, also those that send requests meanwhile. It holds the table of all in memory, and prints it when it is " +
			"complete; --output json prints each piece at once, in no order.",
		Example: "floodgate callers --sort share --min-share 0.8",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if query.all && cmd.Flags().Changed("limit") {
				return command.Usagef("--limit: got it with --all, want one of them")
			}
			return query.run(cmd.Context(), p, &api)
		},
	}
	query.add(p, cmd, &api, "share", 50)
	cmd.Flags().BoolVar(&query.all, "all", false, "list all callers, whatever --limit says; needs --sort share or count")
	api.add(cmd)
	return cmd
}

func (q *callersQuery) run(ctx context.Context, p command.Process, api *clientFlags) error {
	if err := q.check(); err != nil {
		return err
	}
	if q.all && q.byDemand() {
		return command.Usagef("--all: got it with --sort %s, want --sort share or count: only the busiest callers are known by demand", q.sort)
	}
	c, err := api.client()
	if err != nil {
		return err
	}
	if q.kind != "" && !q.byDemand() {
		if err := countedKind(ctx, "callers", c, q.kind); err != nil {
			return err
		}
	}
	if !api.output.JSON && !q.byDemand() {
		q.words = askRuleWords(ctx, c)
	}
	if q.all {
		return q.runAll(ctx, p, api, c)
	}
	var raw json.RawMessage
	if err := api.get(ctx, "callers", "/v1/callers", q.values(), &raw); err != nil {
		return err
	}
	return printCallers(p.Stdout, q, raw, api.output.JSON)
}

// runAll prints all callers. They come in pieces and not in pages: a caller whose count grows may move to a page before the one that is read.
func (q *callersQuery) runAll(ctx context.Context, p command.Process, api *clientFlags, c *client.Client) error {
	all := apiv1.CallerList{Sort: q.sort}
	err := c.Callers(ctx, q.values(), func(piece *apiv1.CallerList) error {
		if api.output.JSON {
			return printable.JSON(p.Stdout).Encode(piece)
		}
		all.Callers, all.Total = append(all.Callers, piece.Callers...), all.Total+piece.Total
		all.Missing = append(all.Missing, piece.Missing...)
		return nil
	})
	if err != nil || api.output.JSON {
		return apiError("callers", err)
	}
	slices.SortFunc(all.Callers, func(a, b apiv1.CallerLine) int { return a.Compare(&b, q.sort) })
	return q.printList(p.Stdout, &all)
}

// printCallers prints an answer.
func printCallers(w io.Writer, q *callersQuery, raw json.RawMessage, asJSON bool) error {
	if q.byDemand() {
		var busy apiv1.Busy
		if err := json.Unmarshal(raw, &busy); err != nil {
			return fmt.Errorf("callers: %w", err)
		}
		if asJSON {
			return printable.JSON(w).Encode(busy)
		}
		return printBusy(w, &busy)
	}
	var list apiv1.CallerList
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("callers: %w", err)
	}
	if asJSON {
		return printable.JSON(w).Encode(list)
	}
	return q.printList(w, &list)
}

func (q *callersQuery) printList(w io.Writer, list *apiv1.CallerList) error {
	if len(list.Callers) > 0 {
		t := terminal.NewTable(w, "caller", "rule", "mode", "count", "limit", "share", "closed until (UTC)")
		for i := range list.Callers {
			c := &list.Callers[i]
			limit, share := q.words.amount(c.Rule, c.Limit), shareText(c.Share)
			if c.Unlimited {
				limit, share = "none", ""
			}
			count, until := strconv.FormatInt(c.Count, 10), ""
			if c.LowerBound {
				count = "at least " + count
			}
			if c.Closed {
				until = when(c.Until)
			}
			t.AppendRow(terminal.Cells(terminal.Caller(callerText(c.Caller)), c.Rule, c.Mode, count, limit, share, until))
		}
		t.Render()
	}
	return terminal.Lines(w, listed(len(list.Callers), list.Total)+missing(list.Missing))
}

// listed says how many rows are shown, and how to see the others. A caller has a row under each rule that counts it.
func listed(shown, total int) string {
	if shown == total {
		return terminal.Amount(shown, "row")
	}
	return fmt.Sprintf("%d of %d rows: see --limit", shown, total)
}

func printBusy(w io.Writer, busy *apiv1.Busy) error {
	if len(busy.Callers) > 0 {
		t := terminal.NewTable(w, "caller", "admitted/s", "blocked/s", "partition")
		for i := range busy.Callers {
			c := &busy.Callers[i]
			t.AppendRow(terminal.Cells(terminal.Caller(callerText(c.Caller)), rateText(c.Admitted, c.AdmittedError), rateText(c.Blocked, c.BlockedError), c.Partition))
		}
		t.Render()
	}
	return terminal.Lines(w, fmt.Sprintf("busiest callers: %d; +- is the error of a sample, and holds in 19 of 20 cases; a request counts half as much %v later",
		len(busy.Callers), time.Duration(busy.HalfNS))+missing(busy.Missing))
}

// rateText returns a rate and its error. A caller who is not in the sample has no rate.
func rateText(rate, bound float64) string {
	if rate == 0 || bound < 0.05 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.1f +-%.1f", rate, bound)
}

func shareText(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// missing says which partitions have not answered; "" if all have.
func missing(partitions []int) string {
	if len(partitions) == 0 {
		return ""
	}
	return fmt.Sprintf("; partitions %v have not answered", partitions)
}

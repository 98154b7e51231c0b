package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas/gateview"
)

// Explain says what holds of a caller, and why.
func Explain(p command.Process) *cobra.Command {
	var api clientFlags
	var kinds kindCheck
	var sidecar string
	cmd := &cobra.Command{
		Use:     "explain CALLER [flags]",
		Short:   "say whether a caller is closed, by what, until when, and why",
		Long:    "Says whether a caller is closed, by what, until when, and why, or how near it is to each limit.",
		Example: "floodgate explain key:noisy-1",
		Args:    command.Arguments(1, 1, "one caller, such as key:k9 or ip:203.0.113.9"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explainCaller(cmd.Context(), p, &api, kinds, args[0], sidecar)
		},
		ValidArgsFunction: api.completingArguments(p, closedCallers),
	}
	cmd.Flags().StringVar(&sidecar, "sidecar", "", "`URL`, or host:port, of a sidecar, to compare what its gates do with what the analyzer says")
	kinds.add(cmd)
	api.add(cmd)
	return cmd
}

func explainCaller(ctx context.Context, p command.Process, api *clientFlags, kinds kindCheck, name, sidecar string) error {
	caller, err := callerArg("explain", name)
	if err != nil {
		return err
	}
	var e apiv1.Explanation
	if err := api.get(ctx, "explain", "/v1/explain", url.Values{"caller": {caller.String()}}, &e); err != nil {
		return err
	}
	if e.Verdict == apiv1.NoRule && len(e.Rules) == 0 && len(e.Networks) == 0 {
		c, err := api.client()
		if err != nil {
			return err
		}
		if err := kinds.check(ctx, "explain", c, caller.Kind); err != nil {
			return err
		}
	}
	if sidecar != "" {
		if e.Gate, err = compareGate(ctx, sidecar, &e); err != nil {
			return err
		}
	}
	if api.output.JSON {
		return printable.JSON(p.Stdout).Encode(e)
	}
	return errors.Join(printExplanation(p.Stdout, &e), printNetworks(ctx, p.Stdout, api, &e))
}

// printNetworks prints the verdict of each network that an address is in.
func printNetworks(ctx context.Context, w io.Writer, api *clientFlags, e *apiv1.Explanation) error {
	for i := range e.Networks {
		var of apiv1.Explanation
		if err := api.get(ctx, "explain", "/v1/explain", url.Values{"caller": {callerText(e.Networks[i])}}, &of); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "its network: %s\n", sentence(of.Sentence)); err != nil {
			return err
		}
	}
	return nil
}

func printExplanation(w io.Writer, e *apiv1.Explanation) error {
	var b strings.Builder
	words := ruleWords{}
	fmt.Fprintln(&b, sentence(e.Sentence))
	for i := range e.Rules {
		words.add(e.Rules[i].Rule, e.Rules[i].Window, e.Rules[i].Measure)
		printRule(&b, &e.Rules[i], words, e.Sentence)
	}
	if len(e.Decisions) > 0 {
		fmt.Fprintf(&b, "\nwhat gates hold:\n")
	}
	for i := range e.Decisions {
		d := &e.Decisions[i]
		fmt.Fprintf(&b, "  %s, %s: %s to %s UTC", printable.Of(d.Rule), printable.Of(d.Mode), when(d.CloseAt), when(d.Until))
		if d.Limit > 0 {
			fmt.Fprintf(&b, "; %s%s, decided at offset %d of partition %d by an entry of %s, lag %v",
				words.used(d.Rule, d.Count, d.Limit, d.WindowNS), holdText(d.Hold), d.Offset, d.Partition, whenUTC(d.EntryTime), time.Duration(d.LagNS).Round(100*time.Microsecond))
		}
		b.WriteByte('\n')
	}
	if g := e.Gate; g != nil {
		fmt.Fprintf(&b, "\nsidecar %s: %s\n", printable.Of(g.URL), sentence(g.Sentence))
		for _, f := range g.Findings {
			fmt.Fprintf(&b, "  %s\n", sentence(f))
		}
	}
	if e.At != nil {
		fmt.Fprintf(&b, "\nas of offset %d of partition %d, log time %s\n", e.At.Offset, e.At.Partition, whenUTC(e.At.LogTime))
	} else {
		fmt.Fprintf(&b, "\npartition %d: %s; heartbeat %s\n", e.Partition.Partition, printable.Of(e.Partition.State), ago(e.Partition.Beat, e.Now))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// learnedText says where the mean cost of a request comes from.
func learnedText(r *apiv1.Room) string {
	if r.Learned == 0 {
		return "by the rule's estimate"
	}
	return fmt.Sprintf("in %v on average, from %s", time.Duration(r.DurationNS).Round(10*time.Millisecond), terminal.Amount(int(r.Learned), "response"))
}

// holdText says what requests in flight held when a decision was taken. It is empty for other decisions.
func holdText(h *apiv1.Hold) string {
	if h == nil {
		return ""
	}
	return fmt.Sprintf(" + %d expected of %d in flight + %d margin", h.Held, h.InFlight, h.Margin)
}

// sentence returns a sentence of the API as a line. Texts of clients in it are escaped already; what else is not safe to print is
// escaped here.
func sentence(s string) string { return printable.Lines(strings.ReplaceAll(s, "\n", " ")) }

// printRule prints what one rule says about a caller. It leaves out the rule's sentence if that is the verdict, which was printed
// before.
func printRule(b *strings.Builder, r *apiv1.RuleExplanation, words ruleWords, verdict string) {
	fmt.Fprintf(b, "\n%s (version %s, %s, %s)", printable.Of(r.Rule), printable.Of(r.Version), printable.Of(r.Mode), printable.Of(r.Window))
	if r.Sentence != verdict {
		fmt.Fprintf(b, ": %s", sentence(r.Sentence))
	}
	b.WriteByte('\n')
	switch {
	case r.Counted && r.Limit.Unlimited:
		fmt.Fprintf(b, "  counted: %s, no limit\n", words.amount(r.Rule, r.Count))
	case r.Counted:
		fmt.Fprintf(b, "  counted: %d of %s, %d left\n", r.Count, words.amount(r.Rule, r.Limit.Capacity), r.Remaining)
	}
	if room := r.Room; room != nil {
		fmt.Fprintf(b, "  in flight: %d, expected to cost %d; margin %d; %d left\n", room.InFlight, room.Held, room.Margin, max(0, room.Left))
		fmt.Fprintf(b, "  a request: %d %s\n", room.Mean, learnedText(room))
	}
	for _, by := range []*apiv1.ControlRecord{r.ModeBy, r.Limit.By} {
		if by != nil {
			fmt.Fprintf(b, "  by hand: %s by %s at %s until %s: %s; id %s\n",
				printable.Of(by.Action), printable.Of(by.Author), whenUTC(by.Time), whenUTC(by.Until), printable.Of(by.Reason), printable.Of(by.ID))
		}
	}
	if r.Limit.Override != "" && !r.Limit.Unlimited { // that there is none is in the sentence
		fmt.Fprintf(b, "  limit %d by the override of %s\n", r.Limit.Limit, printable.Of(r.Limit.Override))
	}
	drawParts(b, r)
}

// drawParts draws the window, part by part, the oldest first.
func drawParts(b *strings.Builder, r *apiv1.RuleExplanation) {
	if len(r.Parts) == 0 {
		return
	}
	largest := int64(1)
	for _, part := range r.Parts {
		largest = max(largest, part.Weight)
	}
	if r.MoreParts > 0 {
		fmt.Fprintf(b, "  older parts that are not shown: %d\n", r.MoreParts)
	}
	t := terminal.NewTable(b, "from (UTC)", "until", "weight", "")
	layout := partLayout(r.Parts)
	for _, part := range r.Parts {
		bar := strings.Repeat("#", int(30*max(0, part.Weight)/largest))
		t.AppendRow(terminal.Cells(part.From.UTC().Format(layout), part.Until.UTC().Format(layout), part.Weight, bar))
	}
	t.Render()
}

// partLayout returns the layout of the times of a window's parts. Parts of minutes and more need the year, and no milliseconds.
func partLayout(parts []apiv1.Part) string {
	if first := &parts[0]; first.Until.Sub(first.From) >= time.Minute {
		return stamp
	}
	return "01-02 15:04:05.000"
}

// maxGateAnswer bounds a sidecar's answer, in bytes.
const maxGateAnswer = 1 << 20

// compareGate asks a sidecar what it holds of the caller of an explanation, and compares.
func compareGate(ctx context.Context, base string, e *apiv1.Explanation) (*apiv1.GateComparison, error) {
	if _, _, err := net.SplitHostPort(base); err == nil && !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, command.Usagef("--sidecar: got %q, want an address such as 127.0.0.1:9091", base)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/caller?"+url.Values{"caller": {callerText(e.Caller)}}.Encode(), http.NoBody)
	if err != nil {
		return nil, command.Usagef("--sidecar: %w", err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("explain: ask the sidecar: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxGateAnswer))
	if err != nil {
		return nil, fmt.Errorf("explain: ask the sidecar: %w", err)
	}
	var held gateview.Caller
	if err := json.Unmarshal(text, &held); answer.StatusCode != http.StatusOK || err != nil {
		return nil, fmt.Errorf("explain: the sidecar at %s answered with status %s, want what it holds of a caller: is it a floodgate sidecar?", base, answer.Status)
	}
	return explain.Compare(e, &held, base), nil
}

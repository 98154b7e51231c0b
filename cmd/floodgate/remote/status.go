package remote

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// Status prints what all analyzers do.
func Status(p command.Process) *cobra.Command {
	var api clientFlags
	cmd := &cobra.Command{
		Use:     "status [flags]",
		Short:   "say who owns which partition, and how far it has counted",
		Long:    "Prints who owns which partition, how far it has counted, and whether all count by the same rules.",
		Example: "floodgate status --api https://analyzer.example:9096 --token-file token",
		Args:    command.FlagsOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return status(cmd.Context(), p, &api) },
	}
	api.add(cmd)
	return cmd
}

func status(ctx context.Context, p command.Process, api *clientFlags) error {
	var s apiv1.Status
	if err := api.get(ctx, "status", "/v1/status", nil, &s); err != nil {
		return err
	}
	if api.output.JSON {
		return printable.JSON(p.Stdout).Encode(s)
	}
	t := terminal.NewTable(p.Stdout, "partition", "state", "owner", "epoch", "offset", "backlog", "lag", "heartbeat", "rules", "rules from", "control")
	for i := range s.Partitions {
		v := &s.Partitions[i]
		t.AppendRow(terminal.Cells(v.Partition, v.State, ownerText(v), v.Epoch, v.Offset, backlogText(v), lagText(v.LagNS), ago(v.Beat, s.Now), v.RulesID, v.RulesFrom, v.Control))
	}
	t.Render()
	return terminal.Lines(p.Stdout, statusLines(&s)...)
}

// ownerText names the owner of a partition.
func ownerText(v *apiv1.PartitionStatus) string {
	switch {
	case v.Here && v.API == "":
		return "this one"
	case v.Here:
		return v.API + ", this one"
	case v.API == "":
		return "-"
	}
	return v.API
}

// backlogText says how many messages wait to be counted, and how old the newest request is that was counted.
func backlogText(v *apiv1.PartitionStatus) string {
	if v.Backlog == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, %s behind", v.Backlog, time.Duration(v.BehindNS).Round(100*time.Millisecond))
}

// lagText returns the lag of decisions; "-" where no close has measured it lately.
func lagText(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Duration(ns).Round(100 * time.Microsecond).String()
}

// ago says how long before now a time was.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return now.Sub(t).Round(100*time.Millisecond).String() + " ago"
}

// statusLines says in sentences what is right and what is not.
func statusLines(s *apiv1.Status) []string {
	lines := []string{fmt.Sprintf("%s in force; %s in the control log; version %s; you are %s, with role %s",
		terminal.Amount(s.Board.Decisions, "decision"), terminal.Amount(s.Control.Next, "record"), printable.Of(s.Version), printable.Of(s.Who), printable.Of(s.Role))}
	if !s.Kafka.Reachable {
		lines = append(lines, fmt.Sprintf("KAFKA IS AWAY: no broker of %s has answered since %s: %s. Nothing is counted, and no decision reaches a gate.",
			printable.Of(strings.Join(s.Kafka.Brokers, ",")), whenUTC(s.Kafka.Since), printable.Of(s.Kafka.Error)))
	}
	for i := range s.Brakes {
		lines = append(lines, brakeText(&s.Brakes[i], s.Rules.Modes))
	}
	var silent []int
	for i := range s.Partitions {
		if s.Partitions[i].Stale {
			silent = append(silent, s.Partitions[i].Partition)
		}
	}
	if len(silent) > 0 {
		lines = append(lines, silence(silent))
	}
	if !s.RulesAgree {
		lines = append(lines, "partitions are counted by different rules: "+byRules(s.Partitions))
	}
	if s.Rules.Refused != "" {
		lines = append(lines, "the newest version of the rules file is not used: "+string(printable.Of(s.Rules.Refused)))
	}
	for _, u := range s.Rules.Unused {
		lines = append(lines, "rule without effect: "+string(printable.Of(u)))
	}
	if !s.Board.Ready || !s.Control.Ready {
		lines = append(lines, "this analyzer still reads the topics: lists may lack something")
	}
	if len(s.Board.Incomplete) > 0 {
		lines = append(lines, fmt.Sprintf("there are more decisions in force than this analyzer lists: some of partitions %v are missing", s.Board.Incomplete))
	}
	if !s.Tokens {
		lines = append(lines, "the API has no tokens: loopback only")
	}
	return lines
}

// brakeText says which rules people have put into shadow mode, and how to end it.
func brakeText(b *apiv1.Action, modes []apiv1.Mode) string {
	what := "all rules"
	if b.Rule != "" {
		what = "rule " + string(printable.Of(b.Rule))
	}
	var enforced []string
	for _, m := range modes {
		if m.File != m.Effective && (b.Rule == "" || b.Rule == m.Rule) {
			enforced = append(enforced, string(printable.Of(m.Rule)))
		}
	}
	file := "no rule of it would enforce"
	if len(enforced) > 0 {
		file = "it would enforce " + strings.Join(enforced, ", ")
	}
	text := fmt.Sprintf("BRAKE: %s in shadow mode until %s, whatever the file says (%s); by %s at %s: %s. To end it: floodgate undo %s",
		what, whenUTC(b.Until), file, printable.Of(b.Author), whenUTC(b.Time), printable.Of(b.Reason), printable.Of(b.ID))
	if b.State == apiv1.StateWaiting {
		text += " (some analyzers have not applied it yet)"
	}
	return text
}

// byRules says which partitions are counted by which rules, and how to see what differs.
func byRules(partitions []apiv1.PartitionStatus) string {
	var ids []string
	by := make(map[string][]int)
	for i := range partitions {
		v := &partitions[i]
		if v.Stale || v.RulesID == "" {
			continue
		}
		if by[v.RulesID] == nil {
			ids = append(ids, v.RulesID)
		}
		by[v.RulesID] = append(by[v.RulesID], v.Partition)
	}
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = numbers(by[id]...) + " by " + string(printable.Of(id))
	}
	text := strings.Join(parts, "; ")
	if len(ids) > 1 {
		text += string(". floodgate rules diff " + printable.Of(ids[0]) + " " + printable.Of(ids[1]))
	}
	return text
}

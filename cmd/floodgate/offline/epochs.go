package offline

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// repairEpochs is topics --repair-epochs. For each partition of decisions it prints the epochs that it found, and whether
// it claimed a higher one.
func repairEpochs(ctx context.Context, p command.Process, asJSON bool, client *kafkaio.Client, decisions string) error {
	partitions, err := client.Partitions(ctx, decisions)
	if err != nil {
		return fmt.Errorf("repair epochs: %w", err)
	}
	var reports []analyzer.EpochReport
	for i := range partitions {
		c := analyzer.OwnerConfig{Decisions: decisions, Name: "topics --repair-epochs of " + command.Name(), Logger: p.Logger()}
		c.Fold.Partition = i
		r, err := analyzer.RepairEpochs(ctx, client, c)
		if err != nil {
			return fmt.Errorf("repair epochs of %s/%d: %w", decisions, i, err)
		}
		reports = append(reports, r)
	}
	if asJSON {
		return encodeEpochs(p, reports)
	}
	return renderEpochs(p, reports)
}

func renderEpochs(p command.Process, reports []analyzer.EpochReport) error {
	t := table.NewWriter()
	t.SetOutputMirror(p.Stdout)
	t.AppendHeader(table.Row{"partition", "owner's epoch", "highest epoch", "claimed by", "refused", "now claimed"})
	repaired := 0
	for _, r := range reports {
		by := ""
		if r.By != "" {
			by = fmt.Sprintf("%q", r.By) // a stranger may have written it
		}
		claimed := "-"
		if r.Claimed != 0 {
			claimed = fmt.Sprint(r.Claimed)
			repaired++
		}
		t.AppendRow(table.Row{r.Partition, r.Owner, r.Highest, by, r.Refused, claimed})
	}
	t.Render()
	_, err := fmt.Fprintf(p.Stdout, "%d partitions, %d taken back\n", len(reports), repaired)
	return err
}

func encodeEpochs(p command.Process, reports []analyzer.EpochReport) error {
	enc := json.NewEncoder(p.Stdout)
	repaired := 0
	for _, r := range reports {
		if r.Claimed != 0 {
			repaired++
		}
		if err := enc.Encode(map[string]any{
			"type": "partition", "partition": r.Partition, "owner": r.Owner, "highest": r.Highest, "by": r.By,
			"refused": r.Refused, "claimed": r.Claimed,
		}); err != nil {
			return err
		}
	}
	return enc.Encode(map[string]any{"type": "summary", "partitions": len(reports), "repaired": repaired})
}

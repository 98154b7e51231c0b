package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store"
)

// storePartition is one partition's store, read while no analyzer runs.
type storePartition struct {
	number int
	at     store.Checkpoint
	fold   *analyzer.Fold
}

// storeNumbers returns the partitions whose stores lie below dir, in order.
func storeNumbers(dir string) ([]int, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read data directory: %w", err)
	}
	var list []int
	for _, n := range names {
		if p, err := strconv.Atoi(n.Name()); err == nil && n.IsDir() && store.Exists(filepath.Join(dir, n.Name())) {
			list = append(list, p) // anything else is a store that was moved aside, or nothing of ours
		}
	}
	slices.Sort(list)
	return list, nil
}

// openStores reads all partitions below dir, by number.
func openStores(dir string, set *rules.Set) ([]storePartition, error) {
	numbers, err := storeNumbers(dir)
	if err != nil {
		return nil, err
	}
	var list []storePartition
	for _, p := range numbers {
		f, at, err := analyzer.Inspect(filepath.Join(dir, strconv.Itoa(p)), set, analyzer.FoldOptions{})
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		list = append(list, storePartition{p, at, f})
	}
	return list, nil
}

// storeRow is one line of the store's output.
type storeRow struct {
	Type      string `json:"type"` // row
	Partition int    `json:"partition"`
	Rule      string `json:"rule"`
	Caller    string `json:"caller"`
	Count     int64  `json:"count"`
	Limit     int64  `json:"limit"`
	Closed    string `json:"closed_until,omitempty"`
}

// runStore prints what a stopped analyzer has counted, as of the newest time that it folded.
func runStore(_ context.Context, p process, args []string) error {
	flags := newFlags("store --data DIR --rules FILE [flags]")
	var out outputFlag
	var data, path, caller string
	var most int
	flags.StringVar(&data, "data", "", "`directory` of the counts")
	flags.StringVar(&path, "rules", "", "rules `file` that they were counted by")
	flags.StringVar(&caller, "caller", "", "only this caller, `kind:id`")
	flags.IntVar(&most, "most", 20, "print the callers with the highest counts, at most so many; 0 is all")
	flags.Var(&out, "output", "table or json")
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	if data == "" || path == "" {
		return usagef("store: got --data %q and --rules %q, want both", data, path)
	}
	set, err := rules.Load(path)
	if err != nil {
		return fmt.Errorf("load rules: %w", err)
	}
	partitions, err := openStores(data, set)
	if err != nil {
		return err
	}
	if len(partitions) == 0 {
		return fmt.Errorf("store: %s holds no partition, want the --data of an analyzer", data)
	}
	rows := storeRows(partitions, caller)
	shown := rows
	if most > 0 && len(rows) > most {
		shown = rows[:most]
	}
	if out.json {
		return encodeStore(p, partitions, shown, len(rows))
	}
	return renderStore(p, partitions, shown, len(rows))
}

// storeRows returns the rows of all partitions, highest count first.
func storeRows(partitions []storePartition, caller string) []storeRow {
	var rows []storeRow
	for _, sp := range partitions {
		at := sp.fold.LogTime()
		sp.fold.Rows(at, func(r analyzer.Row) bool {
			row := storeRow{Type: "row", Partition: sp.number, Rule: r.Rule.Name, Caller: r.Rule.Kind + ":" + r.ID, Count: r.Total, Limit: r.Limit}
			if r.Closure.ClosedAt(at) {
				row.Closed = time.Unix(0, r.Closure.Until).UTC().Format(time.RFC3339Nano)
			}
			if caller == "" || row.Caller == caller {
				rows = append(rows, row)
			}
			return true
		})
	}
	slices.SortFunc(rows, func(a, b storeRow) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Caller, b.Caller))
	})
	return rows
}

func renderStore(p process, partitions []storePartition, rows []storeRow, all int) error {
	t := table.NewWriter()
	t.SetOutputMirror(p.stdout)
	t.AppendHeader(table.Row{"rule", "caller", "count", "limit", "closed until", "partition"})
	for _, r := range rows {
		t.AppendRow(table.Row{r.Rule, r.Caller, r.Count, r.Limit, r.Closed, r.Partition})
	}
	t.Render()
	for _, sp := range partitions {
		fmt.Fprintf(p.stdout, "partition %d: next offset %d, %d rows, digest %016x verified\n", sp.number, sp.at.Next, sp.at.Rows, sp.at.Digest)
	}
	_, err := fmt.Fprintf(p.stdout, "%d of %d rows\n", len(rows), all)
	return err
}

func encodeStore(p process, partitions []storePartition, rows []storeRow, all int) error {
	enc := json.NewEncoder(p.stdout)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	for _, sp := range partitions {
		if err := enc.Encode(map[string]any{
			"type": "partition", "partition": sp.number, "next": sp.at.Next, "rows": sp.at.Rows, "digest": fmt.Sprintf("%016x", sp.at.Digest),
		}); err != nil {
			return err
		}
	}
	return enc.Encode(map[string]any{"type": "summary", "partitions": len(partitions), "rows": all})
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
)

// storePartition is one partition's store, read while no analyzer runs.
type storePartition struct {
	number int
	at     store.Checkpoint
	fold   *fold.Fold
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
			list = append(list, p) // other names are stores that were moved aside, or files of others
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
		f, at, err := analyzer.Inspect(filepath.Join(dir, strconv.Itoa(p)), set, fold.Options{})
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
	Base64    string `json:"caller_base64,omitempty"` // if it is not UTF-8
	Count     int64  `json:"count"`
	Limit     int64  `json:"limit"`                       // that the caller is counted under
	Unlimited bool   `json:"unlimited,omitempty"`         // nothing closes the caller, whatever the limit
	Since     string `json:"lower_bound_since,omitempty"` // time up to which weight may be missing from the count; empty: it is exact
	Closed    string `json:"closed_until,omitempty"`      // empty: not closed now
	Ended     string `json:"closure_ended,omitempty"`     // when the closure ended that was in force at the newest request

	share float64 // of what fills the window; 0 if the caller is unlimited
}

// runStore prints what a stopped analyzer has counted, as of the newest time that it folded.
func runStore(_ context.Context, p process, args []string) error {
	flags := newFlags("store --data DIR --rules FILE [flags]")
	var out outputFlag
	var ids idFlags
	var data, path, caller string
	var maxPrinted int
	flags.StringVar(&data, "data", "", "`directory` of the counts")
	flags.StringVar(&path, "rules", "", "rules `file` of the analyzer")
	ids.add(flags)
	flags.StringVar(&caller, "caller", "", "only this caller, `kind:id` such as key:k9, as the table prints it or as a client sends it; a backslash is doubled")
	flags.IntVar(&maxPrinted, "most", 20, "number of callers to print, those with the largest share of their limits; 0 is all")
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
	caller, err := parseCaller(caller)
	if err != nil {
		return err
	}
	set, err := ids.rules(path)
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
	wanted, err := ids.callers(caller)
	if err != nil {
		return err
	}
	rows := storeRows(partitions, wanted, time.Now())
	shown := rows
	if maxPrinted > 0 && len(rows) > maxPrinted {
		shown = rows[:maxPrinted]
	}
	hands := handRows(partitions, func(c string) bool { return len(wanted) == 0 || slices.Contains(wanted, c) })
	if out.json {
		if err := encodeHand(p.stdout, hands); err != nil {
			return err
		}
		return encodeStore(p, partitions, shown, len(rows))
	}
	renderHand(p.stdout, hands)
	return renderStore(p, partitions, shown, len(rows))
}

// parseCaller returns the caller that --caller names; none for "".
func parseCaller(text string) (string, error) {
	caller, err := printable.Parse(text)
	if err != nil {
		return "", usagef("--caller: %w", err)
	}
	if kind, id, found := strings.Cut(caller, ":"); caller != "" && (!found || id == "" || schemas.ValidateKind(kind) != nil) {
		return "", usagef("--caller: got %q, want kind:id, such as key:k9 or ip:203.0.113.9", text)
	}
	return caller, nil
}

// storeRows returns the rows of all partitions, as of the newest time that each has folded: of the callers that are given, or
// of all if none is. Those that are nearest to their limits come first. Whether a closure still holds, now decides.
func storeRows(partitions []storePartition, callers []string, now time.Time) []storeRow {
	var rows []storeRow
	for _, sp := range partitions {
		at := sp.fold.LogTime()
		sp.fold.Rows(at, func(r fold.Row) bool {
			if row := newStoreRow(&r, sp.number, at, now); len(callers) == 0 || slices.Contains(callers, row.Caller) {
				rows = append(rows, row)
			}
			return true
		})
	}
	slices.SortFunc(rows, func(a, b storeRow) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Caller, b.Caller))
	})
	return rows
}

// newStoreRow returns the line about a row of a partition that has folded up to a time, at.
func newStoreRow(r *fold.Row, partition int, at int64, now time.Time) storeRow {
	row := storeRow{
		Type: "row", Partition: partition, Rule: r.Rule.Name, Caller: r.Rule.Kind + ":" + r.ID,
		Count: r.Total, Limit: r.Limit, Unlimited: r.Unlimited,
	}
	row.Base64 = printable.Base64(row.Caller)
	if !r.Unlimited {
		row.share = float64(r.Total) / float64(r.Rule.Window.Capacity(r.Limit))
	}
	if r.LowerBound() {
		row.Since = rowTime(r.Since)
	}
	switch end := rowTime(r.Closure.Until); {
	case !r.Closure.ClosedAt(at):
	case now.UnixNano() < r.Closure.Until:
		row.Closed = end
	default:
		row.Ended = end
	}
	return row
}

// rowTime prints a time of a row.
func rowTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// limit returns the limit for the table.
func (r *storeRow) limit() string {
	if r.Unlimited {
		return "unlimited"
	}
	return strconv.FormatInt(r.Limit, 10)
}

// percent returns the share for the table.
func (r *storeRow) percent() string {
	if r.Unlimited {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*r.share)
}

// closure returns what there is to say of the closure, for the table.
func (r *storeRow) closure() string {
	switch {
	case r.Closed != "":
		return "closed until " + r.Closed
	case r.Ended != "":
		return "ended " + r.Ended
	}
	return ""
}

func renderStore(p process, partitions []storePartition, rows []storeRow, all int) error {
	t := terminal.NewTable(p.stdout, "rule", "caller", "count", "at least, since", "limit", "share", "closure", "partition")
	for i := range rows {
		r := &rows[i]
		t.AppendRow(terminal.Cells(r.Rule, terminal.Caller(r.Caller), r.Count, r.Since, r.limit(), r.percent(), r.closure(), r.Partition))
	}
	t.Render()
	for _, sp := range partitions {
		fmt.Fprintf(p.stdout, "partition %d: next offset %d, %d rows with those of producers, digest %016x verified\n", sp.number, sp.at.Next, sp.at.Rows, sp.at.Digest)
	}
	hint := ""
	if len(rows) < all {
		hint = "; --most 0 prints all"
	}
	_, err := fmt.Fprintf(p.stdout, "%d of %d rows%s\n", len(rows), all, hint)
	return err
}

func encodeStore(p process, partitions []storePartition, rows []storeRow, all int) error {
	enc := printable.JSON(p.stdout)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	for _, sp := range partitions {
		if err := enc.Encode(map[string]any{
			"type": "partition", "partition": sp.number, "next": sp.at.Next, "control": sp.at.Control, "rows": sp.at.Rows, "digest": fmt.Sprintf("%016x", sp.at.Digest),
		}); err != nil {
			return err
		}
	}
	return enc.Encode(map[string]any{"type": "summary", "partitions": len(partitions), "rows": all})
}

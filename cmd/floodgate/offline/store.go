package offline

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
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

	measure rules.Measure // what the rule counts
}

// Store prints what a stopped analyzer has counted, as of the newest time that it folded.
func Store(p command.Process) *cobra.Command {
	var c storeConfig
	cmd := &cobra.Command{
		Use:     "store --data DIR --rules FILE [flags]",
		Short:   "print the counts that a stopped analyzer holds",
		Example: "floodgate store --data /var/lib/floodgate --rules rules.yaml --caller key:k9",
		Args:    command.FlagsOnly,
		RunE:    func(*cobra.Command, []string) error { return c.run(p) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.data, "data", "", "`directory` of the counts")
	flags.StringVar(&c.rules, "rules", "", "rules `file` of the analyzer (default for a floodgate serve: DIR/rules.yaml)")
	flags.StringVar(&c.caller, "caller", "", "only this caller, `kind:id` such as key:k9, as the table prints it or as a client sends it; a backslash is doubled")
	flags.IntVar(&c.maxPrinted, "most", 20, "number of callers to print, those with the largest share of their limits; 0 is all")
	c.output.Add(cmd)
	c.ids.Add(cmd)
	return cmd
}

// storeConfig is the flags of store.
type storeConfig struct {
	ids                 option.IDs
	data, rules, caller string
	maxPrinted          int
	output              command.Output
}

func (c *storeConfig) run(p command.Process) error {
	if c.rules = option.RulesOf(c.rules, c.data); c.data == "" || c.rules == "" {
		return command.Usagef("store: got --data %q and --rules %q, want both", c.data, c.rules)
	}
	caller, err := parseCaller(c.caller)
	if err != nil {
		return err
	}
	set, err := c.ids.Rules(c.rules)
	if err != nil {
		return fmt.Errorf("load rules: %w", err)
	}
	partitions, err := openStores(c.data, set)
	if err != nil {
		return err
	}
	if len(partitions) == 0 {
		return fmt.Errorf("store: %s holds no partition, want the --data of an analyzer", c.data)
	}
	wanted, err := c.ids.Callers(caller)
	if err != nil {
		return err
	}
	rows := storeRows(partitions, wanted, time.Now())
	shown := rows
	if c.maxPrinted > 0 && len(rows) > c.maxPrinted {
		shown = rows[:c.maxPrinted]
	}
	records := controlRows(partitions, func(c string) bool { return len(wanted) == 0 || slices.Contains(wanted, c) })
	if c.output.JSON {
		if err := encodeControl(p.Stdout, records); err != nil {
			return err
		}
		return encodeStore(p, partitions, shown, len(rows))
	}
	renderControl(p.Stdout, records)
	return renderStore(p, partitions, shown, len(rows))
}

// parseCaller returns the caller that --caller names; none for "".
func parseCaller(text string) (string, error) {
	caller, err := printable.Parse(text)
	if err != nil {
		return "", command.Usagef("--caller: %w", err)
	}
	if kind, id, found := strings.Cut(caller, ":"); caller != "" && (!found || id == "" || schemas.ValidateKind(kind) != nil) {
		return "", command.Usagef("--caller: got %q, want kind:id, such as key:k9 or ip:203.0.113.9", text)
	}
	return caller, nil
}

// storeRows returns the rows of all partitions, as of the newest time that each partition has folded. It returns those of the given
// callers, or all if none is given. The callers that are nearest to their limits come first. now decides whether a closure still holds.
func storeRows(partitions []storePartition, callers []string, now time.Time) []storeRow {
	var rows []storeRow
	for _, sp := range partitions {
		at := sp.fold.LogTime()
		sp.fold.View().Rows(at, func(r fold.Row) bool {
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
		Count: r.Total, Limit: r.Limit, Unlimited: r.Unlimited, measure: r.Rule.Measure,
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
	return r.measure.Amount(r.Limit)
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

func renderStore(p command.Process, partitions []storePartition, rows []storeRow, all int) error {
	t := terminal.NewTable(p.Stdout, "rule", "caller", "count", "at least, since", "limit", "share", "closure", "partition")
	for i := range rows {
		r := &rows[i]
		t.AppendRow(terminal.Cells(r.Rule, terminal.Caller(r.Caller), r.Count, r.Since, r.limit(), r.percent(), r.closure(), r.Partition))
	}
	t.Render()
	for _, sp := range partitions {
		fmt.Fprintf(p.Stdout, "partition %d: next offset %d, %d rows with those of producers, digest %016x verified\n", sp.number, sp.at.Next, sp.at.Rows, sp.at.Digest)
	}
	hint := ""
	if len(rows) < all {
		hint = "; --most 0 prints all"
	}
	_, err := fmt.Fprintf(p.Stdout, "%d of %d rows%s\n", len(rows), all, hint)
	return err
}

func encodeStore(p command.Process, partitions []storePartition, rows []storeRow, all int) error {
	enc := printable.JSON(p.Stdout)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	for _, sp := range partitions {
		if err := enc.Encode(map[string]any{
			"type": "partition", "partition": sp.number, "next": sp.at.Next, "placed": sp.at.Placed, "rows": sp.at.Rows, "digest": fmt.Sprintf("%016x", sp.at.Digest),
		}); err != nil {
			return err
		}
	}
	return enc.Encode(map[string]any{"type": "summary", "partitions": len(partitions), "rows": all})
}

// controlRow is one line of the store's output about a control record.
type controlRow struct {
	Type      string `json:"type"` // control_record
	Partition int    `json:"partition"`
	ID        string `json:"id"`
	Action    string `json:"action"`
	Caller    string `json:"caller,omitempty"`
	Base64    string `json:"caller_base64,omitempty"` // if it is not UTF-8
	Rule      string `json:"rule,omitempty"`          // empty: all
	Limit     int64  `json:"limit,omitempty"`
	Until     string `json:"until,omitempty"`
	Author    string `json:"author"`
	Reason    string `json:"reason"`
	Time      string `json:"time"`
	From      int64  `json:"from"`                // the first offset of requests that was counted after it
	Undone    string `json:"undone_by,omitempty"` // author and reason
}

// controlRows returns the control records that the stores remember: about the callers that are given and about no caller, or
// all of it if none is given.
func controlRows(partitions []storePartition, wanted func(caller string) bool) (rows []controlRow) {
	for _, sp := range partitions {
		for m := range sp.fold.View().Records().All(0) {
			if row := newControlRow(&m, sp.number); row.Caller == "" || wanted(row.Caller) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func newControlRow(m *override.Record, partition int) controlRow {
	c := &m.Control
	row := controlRow{
		Type: "control_record", Partition: partition, ID: c.ID.String(), Action: c.Action.String(), Rule: c.Rule, Limit: c.Limit,
		Author: c.Author, Reason: c.Reason, Time: rowTime(c.Time), From: m.From,
	}
	if c.Caller != (schemas.Caller{}) {
		row.Caller = c.Caller.String()
		row.Base64 = printable.Base64(row.Caller)
	}
	if c.Until > 0 {
		row.Until = rowTime(c.Until)
	}
	if u := m.UndoneBy; u != nil {
		row.Undone = u.Author + ": " + u.Reason
	}
	return row
}

// state returns what there is to say of the row now, for the table.
func (r *controlRow) state() string {
	if r.Undone != "" {
		return "undone by " + r.Undone
	}
	if r.Until != "" {
		return "until " + r.Until
	}
	return ""
}

// what returns what was decided, for the table.
func (r *controlRow) what() string {
	if r.Limit > 0 {
		return fmt.Sprintf("%s %d", r.Action, r.Limit)
	}
	return r.Action
}

// encodeControl prints control records as JSON.
func encodeControl(out io.Writer, rows []controlRow) error {
	enc := printable.JSON(out)
	for i := range rows {
		if err := enc.Encode(rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// renderControl prints control records, or nothing.
func renderControl(out io.Writer, rows []controlRow) {
	if len(rows) == 0 {
		return
	}
	t := terminal.NewTable(out, "control record", "caller", "rule", "state", "author", "reason", "time", "partition", "id")
	for i := range rows {
		r := &rows[i]
		at, _ := time.Parse(time.RFC3339Nano, r.Time) // rowTime made it
		t.AppendRow(terminal.Cells(r.what(), terminal.Caller(r.Caller), r.Rule, r.state(), r.Author, r.Reason, at.Format(time.RFC3339), r.Partition, r.ID))
	}
	t.Render()
}

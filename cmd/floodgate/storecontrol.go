package main

import (
	"fmt"
	"io"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas"
)

// controlRow is one line of the store's output about a control record.
type controlRow struct {
	Type      string `json:"type"` // by_hand
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
		sp.fold.Manual(func(m fold.Manual) bool {
			if row := newControlRow(&m, sp.number); row.Caller == "" || wanted(row.Caller) {
				rows = append(rows, row)
			}
			return true
		})
	}
	return rows
}

func newControlRow(m *fold.Manual, partition int) controlRow {
	c := &m.Control
	row := controlRow{
		Type: "by_hand", Partition: partition, ID: c.ID.String(), Action: c.Action.String(), Rule: c.Rule, Limit: c.Limit,
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
	t := terminal.NewTable(out, "by hand", "caller", "rule", "state", "author", "reason", "time", "partition", "id")
	for i := range rows {
		r := &rows[i]
		at, _ := time.Parse(time.RFC3339Nano, r.Time) // rowTime made it
		t.AppendRow(terminal.Cells(r.what(), terminal.Caller(r.Caller), r.Rule, r.state(), r.Author, r.Reason, at.Format(time.RFC3339), r.Partition, r.ID))
	}
	t.Render()
}

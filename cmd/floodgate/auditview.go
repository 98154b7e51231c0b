package main

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer"
)

// auditSummary is the last line of an audit.
type auditSummary struct {
	Type        string `json:"type"` // summary
	Partitions  int    `json:"partitions"`
	Entries     uint64 `json:"entries"`
	Requests    uint64 `json:"requests"`
	Duplicates  uint64 `json:"duplicates"`
	Late        uint64 `json:"late"`
	Rejected    uint64 `json:"rejected"`
	Uncounted   uint64 `json:"uncounted"` // weight of callers for whom there was no room
	Agreed      int    `json:"agreed"`
	Differences int    `json:"differences"`
	Unaudited   int    `json:"unaudited"`
	Damaged     int    `json:"damaged"`
	Exact       bool   `json:"exact"`
}

func sumAudit(reports []analyzer.AuditReport) auditSummary {
	s := auditSummary{Type: "summary", Partitions: len(reports)}
	for i := range reports {
		r := &reports[i]
		s.Entries += r.Log.Entries
		s.Requests += r.Log.Requests
		s.Duplicates += r.Log.Duplicate
		s.Late += r.Log.Late
		s.Uncounted += r.Log.Uncounted
		for _, n := range r.Log.Rejected {
			s.Rejected += n
		}
		s.Agreed += r.Agreed
		s.Differences += len(r.Differences)
		s.Unaudited += len(r.Unaudited)
		if r.Damage != nil {
			s.Damaged++
		}
	}
	s.Exact = s.Differences == 0 && s.Damaged == 0
	return s
}

// verdict is an error if the store is not what the log says, or if nobody can tell of a single row.
func (s *auditSummary) verdict() error {
	switch {
	case s.Damaged > 0:
		return fmt.Errorf("audit: the rows of %d partitions are not those that were committed, and %d differ from the log", s.Damaged, s.Differences)
	case s.Differences > 0:
		return fmt.Errorf("audit: %d rows of the store differ from the log", s.Differences)
	case s.Unaudited > 0 && s.Agreed == 0:
		return fmt.Errorf("audit: nothing could be compared, all %d rows are from before what the log retains", s.Unaudited)
	}
	return nil
}

// auditTime prints a time of the log; none if nothing was folded.
func auditTime(ns int64) string {
	if ns == math.MinInt64 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
}

func renderAudit(p process, reports []analyzer.AuditReport, sum auditSummary, most int) error {
	renderRows(p, "differences", reports, most, func(r *analyzer.AuditReport) []analyzer.Difference { return r.Differences })
	renderRows(p, "can't be audited", reports, most, func(r *analyzer.AuditReport) []analyzer.Difference { return r.Unaudited })
	for i := range reports {
		r := &reports[i]
		fmt.Fprintf(p.stdout, "partition %d: offsets %d to %d, %d requests in %d entries, %d duplicates, %d late; %d rows agree, %d differ, %d can't be audited\n",
			r.Partition, r.From, r.To, r.Log.Requests, r.Log.Entries, r.Log.Duplicate, r.Log.Late, r.Agreed, len(r.Differences), len(r.Unaudited))
		if r.Damage != nil {
			fmt.Fprintf(p.stdout, "partition %d: %v\n", r.Partition, r.Damage)
		}
	}
	if sum.Uncounted > 0 || sum.Rejected > 0 {
		fmt.Fprintf(p.stdout, "the log also holds %d records or entries that were refused, and a weight of %d for whom there was no room (--max-rows)\n", sum.Rejected, sum.Uncounted)
	}
	verdict := "the store is what the log says, to the unit"
	if !sum.Exact {
		verdict = "THE STORE IS NOT WHAT THE LOG SAYS"
	} else if sum.Unaudited > 0 {
		verdict = "the store is what the log says, as far as the log reaches"
	}
	_, err := fmt.Fprintf(p.stdout, "%d partitions, %d requests, %d rows: %s\n", sum.Partitions, sum.Requests, sum.Agreed+sum.Differences+sum.Unaudited, verdict)
	return err
}

// renderRows prints one kind of finding of all partitions as a table, or nothing.
func renderRows(p process, title string, reports []analyzer.AuditReport, most int, rows func(*analyzer.AuditReport) []analyzer.Difference) {
	t := table.NewWriter()
	t.SetOutputMirror(p.stdout)
	t.SetTitle(title)
	t.AppendHeader(table.Row{"rule", "caller", "store", "log", "difference", "window from", "why", "partition"})
	all, shown := 0, 0
	for i := range reports {
		for _, d := range rows(&reports[i]) {
			if all++; most > 0 && shown == most {
				continue
			}
			shown++
			t.AppendRow(table.Row{d.Rule, d.Caller, d.Store, d.Log, fmt.Sprintf("%+d", d.Store-d.Log), auditTime(d.Start), d.Why, reports[i].Partition})
		}
	}
	if all == 0 {
		return
	}
	t.Render()
	if shown < all {
		fmt.Fprintf(p.stdout, "%d of %d rows; --most 0 prints all\n", shown, all)
	}
}

// auditLine is one finding as JSON.
type auditLine struct {
	Type      string `json:"type"` // difference or unaudited
	Partition int    `json:"partition"`
	Rule      string `json:"rule"`
	Caller    string `json:"caller"`
	Store     int64  `json:"store"`
	Log       int64  `json:"log"`
	From      string `json:"window_from,omitempty"`
	Why       string `json:"why"`
}

func encodeAudit(p process, reports []analyzer.AuditReport, sum auditSummary) error {
	enc := json.NewEncoder(p.stdout)
	for i := range reports {
		r := &reports[i]
		for kind, list := range map[string][]analyzer.Difference{"difference": r.Differences, "unaudited": r.Unaudited} {
			for _, d := range list {
				if err := enc.Encode(auditLine{kind, r.Partition, d.Rule, d.Caller, d.Store, d.Log, auditTime(d.Start), d.Why}); err != nil {
					return err
				}
			}
		}
		line := map[string]any{
			"type": "partition", "partition": r.Partition, "from": r.From, "to": r.To, "log_time": auditTime(r.LogTime),
			"entries": r.Log.Entries, "requests": r.Log.Requests, "duplicates": r.Log.Duplicate, "late": r.Log.Late,
			"uncounted": r.Log.Uncounted, "rejected": r.Log.Rejected,
			"agreed": r.Agreed, "differences": len(r.Differences), "unaudited": len(r.Unaudited),
		}
		if r.Damage != nil {
			line["damage"] = r.Damage.Error()
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return enc.Encode(sum)
}

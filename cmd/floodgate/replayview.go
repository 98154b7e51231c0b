package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer/replay"
)

// replayRows is how many closes the table shows.
const replayRows = 50

// replayView prints a run for people: a table of who closed when and why, and the totals.
type replayView struct {
	out    io.Writer
	closes []replay.Close // the first ones
}

func (v *replayView) close(c replay.Close) error {
	if len(v.closes) < replayRows {
		v.closes = append(v.closes, c)
	}
	return nil
}

func (v *replayView) summary(s replay.Summary, c replay.Config, took time.Duration) {
	if s.Closes > 0 {
		v.table(s)
	}
	v.totals(s, c, took)
}

func (v *replayView) table(s replay.Summary) {
	t := table.NewWriter()
	t.SetOutputMirror(v.out)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"closed at (UTC)", "for", "caller", "rule", "count", "limit"})
	for _, c := range v.closes {
		name := c.Rule
		if c.Mode != "" {
			name += " (" + c.Mode + ")"
		}
		t.AppendRow(table.Row{
			c.CloseAt.Format("2006-01-02 15:04:05.999"), c.Until.Sub(c.CloseAt).Round(time.Millisecond), printable(c.Caller), name, c.Count, c.Limit,
		})
	}
	t.Render()
	if more := s.Closes - int64(len(v.closes)); more > 0 {
		fmt.Fprintf(v.out, "… and %s more, see --output json\n", humanize.Comma(more))
	}
	fmt.Fprintln(v.out)
}

func (v *replayView) totals(s replay.Summary, c replay.Config, took time.Duration) {
	line := func(name string, n int64, format string, args ...any) {
		fmt.Fprintf(v.out, "%-10s %12s  %s\n", name, humanize.Comma(n), fmt.Sprintf(format, args...))
	}
	line("lines", s.Lines, "%.1f s, %s lines/s", took.Seconds(), humanize.Comma(int64(float64(s.Lines)/max(took.Seconds(), 1e-6))))
	if s.Rejected > 0 {
		var reasons []string
		for _, r := range slices.Sorted(maps.Keys(s.RejectedByReason)) {
			reasons = append(reasons, fmt.Sprintf("%s %s", r, humanize.Comma(s.RejectedByReason[r])))
		}
		line("rejected", s.Rejected, "could not be read: %s", strings.Join(reasons, ", "))
	}
	if s.Late > 0 {
		line("late", s.Late, "more than %v older than a line before them: dropped; a larger --reorder counts them", c.Reorder)
	}
	if s.ReorderCut > 0 {
		line("cut", s.ReorderCut, "counted before their order was sure: a larger --reorder-memory waits for it")
	}
	if s.Uncounted > 0 {
		line("uncounted", int64(min(s.Uncounted, 1<<62)), "of more callers than the table has room for")
	}
	about := ""
	if s.CallersEstimated {
		about = "about; "
	}
	line("callers", s.Callers, "%s%s requests", about, humanize.Comma(s.Requests))
	shadow := ""
	if s.ShadowCloses > 0 {
		shadow = fmt.Sprintf("%s of them by shadow rules, which would have blocked %s requests more", humanize.Comma(s.ShadowCloses), humanize.Comma(s.ShadowBlocked))
	}
	line("closes", s.Closes, "%s", shadow)
	line("blocked", s.Blocked, "%.2f %% of the requests", 100*float64(s.Blocked)/float64(max(1, s.Requests)))
	fmt.Fprintf(v.out, "%-10s %11.1f%%  the most that a caller went over its limit\n", "overshoot", 100*s.Overshoot)
}

// printable returns s as it is, or quoted if a terminal could take some of it for a command.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) || r == '\ufffd' {
			return strconv.Quote(s)
		}
	}
	return s
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// replayRows is how many closes the table shows.
const replayRows = 50

// replayView prints a run for people: a table of the closes with time and rule, and the totals.
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
	t := terminal.NewTable(v.out, "closed at (UTC)", "for", "caller", "rule", "count", "limit")
	t.SetStyle(table.StyleLight)
	for _, c := range v.closes {
		name := c.Rule
		if c.Mode != "" {
			name += " (" + c.Mode + ")"
		}
		t.AppendRow(terminal.Cells(
			c.CloseAt.Format("2006-01-02 15:04:05.999"), c.Until.Sub(c.CloseAt).Round(time.Millisecond), terminal.Caller(c.Caller), name, c.Count, c.Limit,
		))
	}
	t.Render()
	if more := s.Closes - int64(len(v.closes)); more > 0 {
		fmt.Fprintf(v.out, "… and %s more, see --output json\n", humanize.Comma(more))
	}
	fmt.Fprintln(v.out)
}

// rejected prints the first lines that could not be read, for each reason.
func (v *replayView) rejected(s replay.Summary) {
	for _, r := range slices.Sorted(maps.Keys(s.RejectedLines)) {
		for _, line := range s.RejectedLines[r] {
			fmt.Fprintf(v.out, "%-10s %12s  %s: %s\n", "", "", r, printable.Of(line))
		}
	}
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
		v.rejected(s)
	}
	if s.Late > 0 {
		line("late", s.Late, "more than %v older than an earlier line: dropped; a larger --reorder counts them", c.Reorder)
	}
	if s.ReorderCut > 0 {
		line("cut", s.ReorderCut, "counted early, perhaps out of order: a larger --reorder-memory avoids that")
	}
	if s.Uncounted > 0 {
		line("uncounted", int64(min(s.Uncounted, 1<<62)), "of callers without a row, because the table was full: closes may be missing. --max-rows %d can be more, at some 250 bytes a row", c.MaxRows)
	}
	about := ""
	if s.CallersEstimated {
		about = "about; "
	}
	line("callers", s.Callers, "%s%s requests", about, humanize.Comma(s.Requests))
	shadow := ""
	if s.ShadowCloses > 0 {
		shadow = fmt.Sprintf("%s of them by shadow rules, which would have blocked %s more requests", humanize.Comma(s.ShadowCloses), humanize.Comma(s.ShadowBlocked))
	}
	line("closes", s.Closes, "%s", shadow)
	line("blocked", s.Blocked, "%.2f %% of the requests", 100*float64(s.Blocked)/float64(max(1, s.Requests)))
	fmt.Fprintf(v.out, "%-10s %11.1f%%  the largest excess of a caller over its limit\n", "overshoot", 100*s.Overshoot)
	if a := s.Accuracy; a != nil {
		v.accuracy(a, c.Lag, line)
	}
}

// accuracy prints what a lag costs.
func (v *replayView) accuracy(a *replay.Accuracy, lag time.Duration, line func(name string, n int64, format string, args ...any)) {
	fmt.Fprintf(v.out, "%-10s %11.2f%%  the mean of all closes%s\n", "", 100*a.OvershootMean, foreseen(a.Foreseen, -1, a.Expected, a.Bound))
	if len(a.Mechanisms) > 1 {
		for _, m := range a.Mechanisms {
			fmt.Fprintf(v.out, "%-10s %11.2f%%  of %s closes %s%s\n", "", 100*m.Mean, humanize.Comma(m.Closes), closesBy(m.Name), foreseen(m.Foreseen, m.Closes, m.Expected, m.Bound))
		}
	}
	line("over", int64(min(a.Over, 1<<62)), "requests, or their cost, admitted over a limit that was reached, because decisions take %v", lag) // bounded
	if a.Early == 0 && a.Shares == 0 && a.InnocentsClosed == 0 {
		return
	}
	line("early", a.Early, "decisions ahead of time")
	line("shares", a.Shares, "decisions with a share, by which a gate lets so many requests of a caller pass in each period")
	about := ""
	if a.InnocentUncertain {
		about = "about; "
	}
	line("innocents", a.InnocentsClosed, "%scallers that their rule, alone and without a lag, never closes: %s of their requests were blocked, and none was closed for longer than %s",
		about, humanize.Comma(a.InnocentRequests), seconds(a.InnocentLongest))
}

// closesBy says what the closes of a mechanism are.
func closesBy(mechanism string) string {
	switch mechanism {
	case policy.Predicted.String():
		return "that came ahead of time"
	case policy.Shared.String():
		return "while a share held"
	}
	return "that followed the count"
}

// foreseen says what decisions expected of so many of all closes.
func foreseen(closes, all int64, expected, bound float64) string {
	of := ""
	switch closes {
	case 0:
		return ""
	case all:
	default:
		of = fmt.Sprintf("of %s closes ", humanize.Comma(closes))
	}
	return fmt.Sprintf("; %s%.2f %% was expected, and at most %.2f %%", of, 100*expected, 100*bound)
}

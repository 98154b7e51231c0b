package remote

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// stamp is the form of times that people read; they are UTC.
const stamp = "2006-01-02 15:04:05"

// lineStamp begins a line that stands under no head: it says its zone.
const lineStamp = stamp + "Z"

// decisionsView prints closures for people or, as JSON, for programs.
type decisionsView struct {
	out   io.Writer
	json  bool
	words ruleWords // nil: no rules are known
}

// all prints what is in force, and which partitions are silent: they have no owner that is alive.
func (v decisionsView) all(inForce []schemas.Decision, silent []int, partitions int, unread uint64, now time.Time) error {
	if v.json {
		for i := range inForce {
			if err := v.encode("in force", inForce[i], now); err != nil {
				return err
			}
		}
		return printable.JSON(v.out).Encode(map[string]any{
			"type": "summary", "in_force": len(inForce), "partitions": partitions, "silent_partitions": silent, "unread": unread,
		})
	}
	v.table(inForce)
	text := fmt.Sprintf("%s in force, of %s", terminal.Amount(len(inForce), "closure"), terminal.Amount(partitions, "partition"))
	if len(silent) > 0 {
		text += "; " + silence(silent)
	}
	if unread > 0 {
		text += fmt.Sprintf("; %d records do not count: not an owner's, or of one that was replaced", unread)
	}
	_, err := fmt.Fprintln(v.out, text)
	return err
}

// table prints decisions in force, if there are any.
func (v decisionsView) table(inForce []schemas.Decision) {
	if len(inForce) > 0 {
		t := terminal.NewTable(v.out, "closed at (UTC)", "until", "caller", "rule", "mode", "count", "limit", "window", "ahead of time")
		for _, d := range inForce {
			rule, counted := d.Rule, []any{d.Evidence.Count, v.words.amount(d.Rule, d.Evidence.Limit), v.words.window(d.Rule, d.Evidence.Window)}
			if rule == schemas.ControlRule {
				rule, counted = "by hand", []any{"", "", ""}
			}
			t.AppendRow(terminal.Cells(
				unix(d.CloseAt).Format(stamp), unix(d.Until).Format(stamp), terminal.Caller(d.Caller.String()), rule, d.Mode.String(),
				counted[0], counted[1], counted[2], aheadOfTime(&d),
			))
		}
		t.Render()
	}
}

func silence(partitions []int) string {
	return fmt.Sprintf("no owner was heard of partitions %v for %v or longer: nothing new is decided there", partitions, gate.DefaultStaleAfter)
}

// owners prints which partitions are silent, after that has changed.
func (v decisionsView) owners(silent []int, now time.Time) error {
	if v.json {
		return printable.JSON(v.out).Encode(map[string]any{"type": "owners", "time": now.UTC(), "silent_partitions": silent})
	}
	text := "the owners of all partitions are heard"
	if len(silent) > 0 {
		text = silence(silent)
	}
	_, err := fmt.Fprintln(v.out, now.UTC().Format(lineStamp), text)
	return err
}

// lost says that changes were missed, as they came faster than they could be printed.
func (v decisionsView) lost(missed uint64, now time.Time) error {
	if v.json {
		return printable.JSON(v.out).Encode(map[string]any{"type": "lost", "time": now.UTC(), "missed": missed})
	}
	_, err := fmt.Fprintf(v.out, "%s changes came too fast: %d or more were missed. This is in force now:\n", now.UTC().Format(lineStamp), missed)
	return err
}

// silentPartitions returns the partitions whose newest heartbeat is old by its own time.
func silentPartitions(b *board.Board, now time.Time) []int {
	silent := []int{}
	for p := range b.Partitions() {
		if h, ok := b.Heartbeat(p); !ok || now.Sub(unix(h.Time)) > gate.DefaultStaleAfter {
			silent = append(silent, p)
		}
	}
	return silent
}

// change prints one change as a line.
func (v decisionsView) change(c *board.Event, now time.Time) error {
	d := c.Decision
	if v.json {
		return v.encode(c.Kind.String(), d, now)
	}
	byPerson := d.Rule == schemas.ControlRule
	rule := string(printable.Of(d.Rule))
	if byPerson {
		rule = "hand"
	}
	line := fmt.Sprintf("%s %-7s %s by %s", now.UTC().Format(lineStamp), c.Kind, terminal.Caller(d.Caller.String()), rule)
	if d.Mode == schemas.ModeShadow {
		line += " (shadow)"
	}
	if d.Until > d.CloseAt && (c.Kind == board.Closed || c.Kind == board.Changed) {
		line += " until " + unix(d.Until).Format(stamp)
		if !byPerson {
			line += ": " + v.words.used(d.Rule, d.Evidence.Count, d.Evidence.Limit, d.Evidence.Window)
		}
	}
	if ahead := aheadOfTime(&d); ahead != "" && c.Kind != board.Opened && c.Kind != board.Ended {
		line += "; " + ahead
	}
	_, err := fmt.Fprintln(v.out, line)
	return err
}

// aheadOfTime returns in words what a decision says ahead of time: an early closure, the next closure, a share; "" if nothing.
func aheadOfTime(d *schemas.Decision) string {
	var parts []string
	switch e := &d.Evidence; {
	case d.Held:
		parts = append(parts, fmt.Sprintf("held: %d expected of %d in flight, margin %d", e.Held, e.InFlight, e.Margin))
	case d.Early:
		parts = append(parts, "early: not counted yet")
	}
	if d.Next != (schemas.Span{}) {
		text := fmt.Sprintf("next %s for %v", unix(d.Next.CloseAt).Format(stamp), time.Duration(d.Next.Until-d.Next.CloseAt).Round(time.Millisecond))
		if d.Next.Early {
			text += ", early"
		}
		parts = append(parts, text)
	}
	if s := d.Share; s != nil && s.Period == 0 {
		parts = append(parts, "a share") // the API does not say which
	} else if s != nil {
		parts = append(parts, fmt.Sprintf("share: %d each %v until %s", s.Permits, time.Duration(s.Period), unix(s.Until).Format(stamp)))
	}
	return strings.Join(parts, "; ")
}

// encode prints a decision as a line of JSON, with the caller as it is.
func (v decisionsView) encode(what string, d schemas.Decision, now time.Time) error {
	line := map[string]any{
		"type": "decision", "change": what, "time": now.UTC(), "caller": d.Caller.String(), "rule": d.Rule, "mode": d.Mode.String(),
		"close_at": unix(d.CloseAt), "until": unix(d.Until), "partition": d.Partition, "epoch": d.Epoch, "seq": d.Seq,
		"count": d.Evidence.Count, "limit": d.Evidence.Limit, "window_seconds": time.Duration(d.Evidence.Window).Seconds(),
	}
	if d.Early {
		line["early"] = true
	}
	if hold := explain.Decision(&d, now.UnixNano()).Hold; hold != nil {
		line["hold"] = hold
	}
	if d.Next != (schemas.Span{}) {
		line["next"] = map[string]any{"close_at": unix(d.Next.CloseAt), "until": unix(d.Next.Until), "early": d.Next.Early}
	}
	if s := d.Share; s != nil && s.Period == 0 {
		line["share"] = map[string]any{} // the API does not say which
	} else if s != nil {
		line["share"] = map[string]any{
			"from": unix(s.From), "until": unix(s.Until), "period_seconds": time.Duration(s.Period).Seconds(), "permits": s.Permits,
			"demand": s.Demand, "demand_from": unix(s.DemandFrom), "demand_until": unix(s.DemandUntil),
		}
	}
	if e := d.Evidence; e.Bound > 0 {
		line["overshoot_expected"], line["overshoot_bound"] = e.Expected, e.Bound
	}
	if text := printable.Base64(d.Caller.String()); text != "" {
		line["caller_base64"] = text
	}
	return printable.JSON(v.out).Encode(line)
}

func unix(ns int64) time.Time { return time.Unix(0, ns).UTC() }

package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas/event"
)

// sinceTime returns the time that --since says: a time, or how long ago.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if ago, err := document.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, command.Usagef("decisions: --since: got %q, want how long ago, such as 24h or 7d, or a time, such as 2026-01-31T12:00:00Z", text)
	}
	return at, nil
}

// decisionsSince prints what has happened since a time, page by page.
func decisionsSince(ctx context.Context, p command.Process, c *decisionsConfig) error {
	since, err := sinceTime(c.since, time.Now())
	if err != nil {
		return err
	}
	asker, err := c.api.client()
	if err != nil {
		return err
	}
	query := url.Values{"since": {since.UTC().Format(time.RFC3339Nano)}, "limit": {strconv.Itoa(decisionsPage)}}
	events := 0
	for more := true; more; {
		var list apiv1.DecisionList
		if err := asker.Get(ctx, "/v1/decisions", query, &list); err != nil {
			return apiError("decisions", err)
		}
		for i := range list.Events {
			if err := printEvent(p, &list.Events[i], c.api.output.JSON); err != nil {
				return err
			}
		}
		events += len(list.Events)
		query.Set("cursor", list.Next)
		more = list.Next != ""
	}
	if c.api.output.JSON {
		return printable.JSON(p.Stdout).Encode(map[string]any{"type": "summary", "events": events, "since": since.UTC()})
	}
	return terminal.Lines(p.Stdout, fmt.Sprintf("%s since %s", terminal.Amount(events, "event"), whenUTC(since)))
}

func printEvent(p command.Process, e *apiv1.Event, asJSON bool) error {
	if asJSON {
		return printable.JSON(p.Stdout).Encode(e)
	}
	return terminal.Lines(p.Stdout, e.Time.UTC().Format(lineStamp)+" "+eventText(e))
}

// eventText says what has happened.
func eventText(e *apiv1.Event) string {
	caller := "all callers"
	if e.Caller != nil && !e.Together {
		caller = string(printable.Of(e.Caller.Caller().String()))
	}
	by := fmt.Sprintf("%s by %s", caller, printable.Of(e.Rule))
	if e.Mode == "shadow" {
		by += " (shadow)"
	}
	switch event.Type(e.Type) {
	case event.Closed:
		return fmt.Sprintf("closed %s until %s: %d of %d", by, when(e.Until), e.Count, e.Limit)
	case event.Extended:
		return fmt.Sprintf("extended %s until %s", by, when(e.Until))
	case event.Opened:
		return "opened " + by
	case event.Ended:
		return fmt.Sprintf("ended %s, closed since %s", by, when(e.CloseAt))
	case event.Warned:
		return fmt.Sprintf("warned %s: %d of %d, over %g %%", by, e.Count, e.Limit, 100*e.Share)
	case event.Control:
		return fmt.Sprintf("%s %s%s by hand: %s: %s (%s)", printable.Of(e.Action), caller, ruleText(e.Rule), printable.Of(e.Author),
			printable.Of(e.Reason), printable.Of(e.Record))
	case event.RulesChanged:
		return fmt.Sprintf("rules changed from %s to %s", printable.Of(cmp.Or(e.RulesFrom, "-")), printable.Of(e.RulesTo))
	case event.Gap:
		return fmt.Sprintf("events may be missing: partition %d, offsets %d until %d", e.Partition, e.From, e.To)
	}
	return fmt.Sprintf("%s %s", printable.Of(e.Type), by)
}

func ruleText(rule string) string {
	if rule == "" {
		return ""
	}
	return " under " + string(printable.Of(rule))
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// decisionsPage is how many decisions are asked for at once.
const decisionsPage = 1000

// decisionsOfAPI prints what an analyzer knows of decisions and, with --watch, each change.
func decisionsOfAPI(ctx context.Context, p command.Process, c *decisionsConfig) error {
	asker, err := c.api.client()
	if err != nil {
		return err
	}
	if c.watch {
		return watchAPI(ctx, p, c, asker)
	}
	var all []schemas.Decision
	var list apiv1.DecisionList
	query := url.Values{"limit": {strconv.Itoa(decisionsPage)}}
	for more := true; more; more = list.Next != "" {
		list = apiv1.DecisionList{}
		if err := asker.Get(ctx, "/v1/decisions", query, &list); err != nil {
			return apiError("decisions", err)
		}
		for i := range list.Decisions {
			all = append(all, decisionOf(&list.Decisions[i]))
		}
		query.Set("cursor", list.Next)
	}
	slices.SortFunc(all, before)
	return decisionsView{out: p.Stdout, json: c.api.output.JSON}.listed(all, &list, time.Now())
}

// listed prints decisions that the API lists.
func (v decisionsView) listed(all []schemas.Decision, list *apiv1.DecisionList, now time.Time) error {
	if v.json {
		for i := range all {
			if err := v.encode("in force", all[i], now); err != nil {
				return err
			}
		}
		return printable.JSON(v.out).Encode(map[string]any{"type": "summary", "in_force": len(all), "ready": list.Ready, "incomplete_partitions": list.Incomplete})
	}
	v.table(all)
	text := terminal.Amount(len(all), "closure") + " in force"
	if !list.Ready {
		text += "; the analyzer still reads the topic: there may be more"
	}
	if len(list.Incomplete) > 0 {
		text += fmt.Sprintf("; there are more, of partitions %v, than the analyzer can hold", list.Incomplete)
	}
	return printLines(v.out, text)
}

// watchAPI prints all that is in force, and then each change.
func watchAPI(ctx context.Context, p command.Process, c *decisionsConfig, asker *client.Client) error {
	w := streamView{view: decisionsView{out: p.Stdout, json: c.api.output.JSON}, held: map[board.Key]schemas.Decision{}}
	logger := p.Logger()
	err := asker.Stream(ctx, nil, func(e *apiv1.DecisionEvent) error { return w.event(e, time.Now()) }, func(err error) {
		logger.Warn("the stream of decisions broke; it goes on behind the last change", "error", err)
	})
	return apiError("decisions", err)
}

// streamView prints the events of an API's stream.
type streamView struct {
	view  decisionsView
	held  map[board.Key]schemas.Decision // what is in force, until it is printed
	shown bool
}

func (w *streamView) event(e *apiv1.DecisionEvent, now time.Time) error {
	change := board.Event{Kind: kindOf(e.Kind), Missed: e.Missed}
	if e.Decision != nil {
		change.Decision = decisionOf(e.Decision)
	}
	switch {
	case change.Kind == board.Lost:
		first := !w.shown && len(w.held) == 0 // it said so before anything was printed
		w.shown, w.held = false, map[board.Key]schemas.Decision{}
		if first {
			return nil
		}
		return w.view.lost(e.Missed, now)
	case change.Kind == board.Current && !w.shown:
		w.shown = true
		list := make([]schemas.Decision, 0, len(w.held))
		for _, d := range w.held {
			list = append(list, d)
		}
		w.held = nil
		slices.SortFunc(list, before)
		return w.view.listed(list, &apiv1.DecisionList{Ready: true}, now)
	case w.shown && change.Kind != board.Current && change.Kind != board.None:
		return w.view.change(&change, cmp.Or(e.At, now))
	case !w.shown:
		board.Collect(w.held, &change)
	}
	return nil
}

// kindOf returns the kind of an event; None for one that this version does not know.
func kindOf(name string) board.Kind {
	for k := board.Closed; k <= board.Lost; k++ {
		if k.String() == name {
			return k
		}
	}
	return board.None
}

// decisionOf returns what the API shows of a decision. Of a share it shows only that there is one.
func decisionOf(v *apiv1.DecisionView) schemas.Decision {
	d := schemas.Decision{
		Rule: v.Rule, Caller: v.Caller.Caller(), Mode: schemas.ModeEnforce, CloseAt: v.CloseAt.UnixNano(), Until: v.Until.UnixNano(), Early: v.Early,
		Partition: int32(v.Partition), Epoch: v.Epoch, Seq: v.Seq, // a partition number
		Evidence: schemas.Evidence{Count: v.Count, Limit: v.Limit, Window: v.WindowNS, Expected: v.Expected, Bound: v.Bound},
	}
	if v.Mode == schemas.ModeShadow.String() {
		d.Mode = schemas.ModeShadow
	}
	if !v.NextAt.IsZero() {
		d.Next = schemas.Span{CloseAt: v.NextAt.UnixNano(), Until: v.NextTo.UnixNano()}
	}
	if v.Shared {
		d.Share = &schemas.Share{}
	}
	return d
}

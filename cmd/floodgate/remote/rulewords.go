package remote

import (
	"context"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
)

// ruleWords has, by the name of a rule, how people write its window and its amounts. Decisions have numbers only. Of a rule that is not
// there, the window is its length.
type ruleWords map[string]struct {
	window  string             // "1m", or "month"
	endless bool               // there is no window: requests in flight
	amount  func(int64) string // of what the rule counts
}

// askRuleWords returns those of an analyzer's rules. If it does not say its rules, there are none.
func askRuleWords(ctx context.Context, api *client.Client) ruleWords {
	w := ruleWords{}
	var current apiv1.Rules
	_ = api.Get(ctx, "/v1/rules", nil, &current) // numbers are enough
	for i := range current.Rules {
		w.add(current.Rules[i].Name, current.Rules[i].Window, current.Rules[i].Measure)
	}
	return w
}

// add adds a rule, with texts as the API has them.
func (w ruleWords) add(rule, window, measure string) {
	of := rules.Requests
	for m := rules.Requests; m <= rules.InFlight; m++ {
		if m.String() == measure {
			of = m
		}
	}
	e := w[rule]
	e.window, e.amount, e.endless = rules.WindowName(window), of.Amount, of == rules.InFlight
	w[rule] = e
}

// used returns how much of a limit is used: "40 of 100 cost in 1m", or "7 of 20 in flight".
func (w ruleWords) used(rule string, count, limit, length int64) string {
	text := strconv.FormatInt(count, 10) + " of " + w.amount(rule, limit)
	if window := w.window(rule, length); window != "" {
		text += " in " + window
	}
	return text
}

// window returns the window of a rule, of which a decision has the length in nanoseconds. It is "" if the rule has none.
func (w ruleWords) window(rule string, length int64) string {
	if w[rule].endless {
		return ""
	}
	if name := w[rule].window; name != "" {
		return name
	}
	return document.FormatDuration(time.Duration(length))
}

// amount returns an amount of what a rule counts: "40", or "40 cost".
func (w ruleWords) amount(rule string, n int64) string {
	if amount := w[rule].amount; amount != nil {
		return amount(n)
	}
	return strconv.FormatInt(n, 10)
}

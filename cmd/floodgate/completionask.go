package main

import (
	"context"
	"net/url"
	"strconv"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
)

// completeAtMost is how many candidates an analyzer is asked for.
const completeAtMost = "200"

// closedCallers returns callers that are closed now.
func closedCallers(ctx context.Context, c *client.Client) (list []candidate) {
	var answer apiv1.DecisionList
	if c.Get(ctx, "/v1/decisions", url.Values{"limit": {completeAtMost}}, &answer) != nil {
		return nil
	}
	seen := map[string]bool{}
	for i := range answer.Decisions {
		d := &answer.Decisions[i]
		if text := callerText(d.Caller); !seen[text] {
			seen[text] = true
			list = append(list, candidate{text, "closed by " + d.Rule + " until " + when(d.Until)})
		}
	}
	return list
}

// rulesNames returns the names of the rules in force.
func rulesNames(ctx context.Context, c *client.Client) (list []candidate) {
	var answer apiv1.Rules
	if c.Get(ctx, "/v1/rules", nil, &answer) != nil {
		return nil
	}
	for i := range answer.Rules {
		r := &answer.Rules[i]
		list = append(list, candidate{r.Name, r.Callers + ": " + strconv.FormatInt(r.Limit, 10) + " " + r.Measure})
	}
	return list
}

// rulesVersions returns the ids of the versions of the rules.
func rulesVersions(ctx context.Context, c *client.Client) (list []candidate) {
	var answer apiv1.RulesVersions
	if c.Get(ctx, "/v1/rules/versions", nil, &answer) != nil {
		return nil
	}
	for _, v := range answer.Versions {
		list = append(list, candidate{v.ID, "since " + when(v.Time)})
	}
	return list
}

// actionIDs returns the ids of what was done by hand and can be undone.
func actionIDs(ctx context.Context, c *client.Client) (list []candidate) {
	var answer apiv1.ActionList
	if c.Get(ctx, "/v1/actions", url.Values{"limit": {completeAtMost}}, &answer) != nil {
		return nil
	}
	for i := range answer.Actions {
		if a := &answer.Actions[i]; a.State == apiv1.StateInForce || a.State == apiv1.StateWaiting {
			list = append(list, candidate{a.ID, actionText(a)})
		}
	}
	return list
}

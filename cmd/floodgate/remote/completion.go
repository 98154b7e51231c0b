package remote

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// completeTimeout is how long a person waits for an analyzer behind the tabulator key.
const completeTimeout = time.Second

// source asks an analyzer which words there are.
type source func(context.Context, *client.Client) []cobra.Completion

// completing completes a word with the words that an analyzer knows. If the analyzer does not answer, there are no words, and no error.
func (f *clientFlags) completing(p command.Process, ask source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if err := command.FromEnvironment(p, cmd.Flags()); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := f.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		return ask(ctx, c), cobra.ShellCompDirectiveNoFileComp
	}
}

// completingArguments completes the first argument by the first source, and so on. The last source may be nil: no more arguments.
func (f *clientFlags) completingArguments(p command.Process, sources ...source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(sources) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.completing(p, sources[len(args)])(cmd, args, word)
	}
}

// candidate adds a word and its description to a list. It leaves out a word with characters that are special in a shell: clients choose
// their ids, and bash inserts a word as it is.
func candidate(list []cobra.Completion, word, text string) []cobra.Completion {
	if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/@,+%=") != "" {
		return list
	}
	return append(list, cobra.CompletionWithDesc(word, string(printable.Of(text))))
}

// completeAtMost is how many candidates an analyzer is asked for.
const completeAtMost = "200"

// closedCallers returns callers that are closed now.
func closedCallers(ctx context.Context, c *client.Client) (list []cobra.Completion) {
	var answer apiv1.DecisionList
	if c.Get(ctx, "/v1/decisions", url.Values{"limit": {completeAtMost}}, &answer) != nil {
		return nil
	}
	seen := map[string]bool{}
	for i := range answer.Decisions {
		d := &answer.Decisions[i]
		if text := callerText(d.Caller); !seen[text] {
			seen[text] = true
			list = candidate(list, text, "closed by "+d.Rule+" until "+when(d.Until))
		}
	}
	return list
}

// rulesNames returns the names of the rules in force.
func rulesNames(ctx context.Context, c *client.Client) (list []cobra.Completion) {
	var answer apiv1.Rules
	if c.Get(ctx, "/v1/rules", nil, &answer) != nil {
		return nil
	}
	for i := range answer.Rules {
		r := &answer.Rules[i]
		list = candidate(list, r.Name, r.Callers+": "+strconv.FormatInt(r.Limit, 10)+" "+r.Measure)
	}
	return list
}

// versionIDs returns the ids of the versions of the rules.
func versionIDs(ctx context.Context, c *client.Client) (list []cobra.Completion) {
	var answer apiv1.RulesVersions
	if c.Get(ctx, "/v1/rules/versions", nil, &answer) != nil {
		return nil
	}
	for _, v := range answer.Versions {
		list = candidate(list, v.ID, "since "+when(v.Time))
	}
	return list
}

// actionIDs returns the ids of what was done by hand and can be undone.
func actionIDs(ctx context.Context, c *client.Client) (list []cobra.Completion) {
	var answer apiv1.ActionList
	if c.Get(ctx, "/v1/actions", url.Values{"limit": {completeAtMost}}, &answer) != nil {
		return nil
	}
	for i := range answer.Actions {
		if a := &answer.Actions[i]; a.State == apiv1.StateInForce || a.State == apiv1.StateWaiting {
			list = candidate(list, a.ID, actionText(a))
		}
	}
	return list
}

package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/client"
)

// kindCheck refuses callers of a kind that no rule counts: mostly the kind is misspelt. --force takes them.
type kindCheck struct{ force bool }

func (k *kindCheck) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&k.force, "force", false, "take a caller of a kind that no rule counts, too")
}

// check returns an error if the rules of an analyzer count no callers of a kind. It returns nil if the analyzer does not say its rules.
func (k *kindCheck) check(ctx context.Context, what string, api *client.Client, kind string) error {
	if k.force {
		return nil
	}
	if err := countedKind(ctx, what, api, kind); err != nil {
		return fmt.Errorf("%w. --force accepts it", err)
	}
	return nil
}

// countedKind is check without --force.
func countedKind(ctx context.Context, what string, api *client.Client, kind string) error {
	var current apiv1.Rules
	_ = api.Get(ctx, "/v1/rules", nil, &current) // the next question says what is wrong
	if len(current.Rules) == 0 {
		return nil
	}
	var kinds []string
	for i := range current.Rules {
		counted, _, _ := strings.Cut(current.Rules[i].Callers, ":")
		if counted == kind {
			return nil
		}
		kinds = append(kinds, counted)
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	hint := ""
	if meant := document.Closest(kind, kinds); meant != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", printable.Of(meant))
	}
	return fmt.Errorf("%s: no rule counts callers of kind %s%s; rules count %s",
		what, printable.Of(kind), hint, printable.Of(strings.Join(kinds, ", ")))
}

package remote

import (
	"bytes"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// TestATrialOfRequestsInFlight: what is held stands beside what is counted, and a caller without room opens when there is some.
func TestATrialOfRequestsInFlight(t *testing.T) {
	var out bytes.Buffer
	words := ruleWords{}
	words.add("tokens", "1m fixed", "cost")
	err := printTry(command.Process{Stdout: &out}, &apiv1.TryAnswer{Sentence: "10 of 12 requests would pass.", Callers: []apiv1.TryCaller{{
		Caller: apiv1.Caller{Kind: "key", ID: "a"},
		Rules: []apiv1.TryRule{
			{
				Rule: "tokens", Mode: "enforce", Before: 400, After: 400, Limit: 1000, Admitted: 10, Closes: true,
				RoomBefore: &apiv1.Room{InFlight: 1, Held: 50, Margin: 3}, RoomAfter: &apiv1.Room{InFlight: 11, Held: 590, Margin: 30},
			},
			{Rule: "calls", Mode: "enforce", Before: 4, After: 14, Limit: 100, Admitted: 12},
		},
	}}}, words)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 400 + 53 held | 400 + 620 held | 1000 cost |", "| there is room ", "| 4             | 14             | 100 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q", out.String(), want)
		}
	}
}

package remote

import (
	"bytes"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// TestRulesAsATable: a column says what requests in flight hold, if any rule says it.
func TestRulesAsATable(t *testing.T) {
	const plain = "version: 1\nrules:\n  - {name: per-key, callers: key, limit: 7, window: 1m, measure: responses}\n"
	const held = plain + `  - {name: tokens, callers: key, measure: cost, limit: 100, window: 1m, charge: arrival, hold: {estimate: 5, resources: {/b: 9}}}
  - {name: streams, callers: key, measure: in_flight, limit: 20}
`
	for text, want := range map[string][][]string{
		plain: {
			{"RULE", "CALLERS", "MATCH", "LIMIT", "WINDOW", "CLOSE FOR", "OVERRIDES", "MODE"},
			{"per-key", "key", "", "7 responses", "1m sliding", "", "", "enforce"},
		},
		held: {
			{"RULE", "CALLERS", "MATCH", "LIMIT", "WINDOW", "CLOSE FOR", "OVERRIDES", "MODE", "HOLD"},
			{"per-key", "key", "", "7 responses", "1m sliding", "", "", "enforce", ""},
			{"tokens", "key", "", "100 cost", "1m sliding, charge arrival", "", "", "enforce", `5 each, 9 for "/b", margin 2, 10m at most`},
			{"streams", "key", "", "20 in flight", "in flight, 10m at most", "", "", "enforce", ""},
		},
	} {
		set, err := rules.Parse("r", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		printRules(&out, set)
		if notes := strings.Count(out.String(), "\nnote: "); (notes == 2) != (text == held) || strings.Contains(out.String(), "note: per-key") {
			t.Errorf("got %d notes of rules that need to know when requests begin:\n%s", notes, out.String())
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "|") {
				var cells []string
				for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
					cells = append(cells, strings.TrimSpace(cell))
				}
				got = append(got, strings.Join(cells, ";"))
			}
		}
		for i, row := range want {
			if i >= len(got) || got[i] != strings.Join(row, ";") {
				t.Errorf("row %d: got %q, want %q", i, got, row)
			}
		}
	}
}

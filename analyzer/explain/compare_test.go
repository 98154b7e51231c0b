package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas/gateview"
)

func TestAGateIsComparedWithItsAnalyzer(t *testing.T) {
	now := time.Unix(0, noon).UTC()
	held := gateview.Decision{Rule: "ten", Mode: "enforce", CloseAt: now, Until: now.Add(time.Minute), InForce: true}
	told := apiv1.DecisionView{Rule: "ten", Mode: "enforce", CloseAt: now, Until: now.Add(time.Minute), InForce: true, Epoch: 7, Seq: 42}
	late := held
	late.Until = now.Add(4 * time.Second)
	shadow := held
	shadow.Mode = "shadow"
	ignored := held
	ignored.InForce, ignored.Ignored = false, true
	share := held
	share.Share = true
	ended := []apiv1.RuleExplanation{{RuleState: apiv1.RuleState{Rule: "ten", Closure: &apiv1.Closure{Until: now.Add(-3 * time.Second)}}}}
	for name, c := range map[string]struct {
		told     []apiv1.DecisionView
		rules    []apiv1.RuleExplanation
		gate     gateview.Caller
		agrees   bool
		sentence string
		finding  string // "" is none
	}{
		"both closed":               {told: []apiv1.DecisionView{told}, gate: gateview.Caller{Refused: true, Decisions: []gateview.Decision{held}}, agrees: true, sentence: "agree: key:a is closed"},
		"both open":                 {agrees: true, sentence: "agree: key:a is open"},
		"a share closes nobody":     {gate: gateview.Caller{Decisions: []gateview.Decision{share}}, agrees: true, sentence: "agree: key:a is open"},
		"open here, blocked there":  {gate: gateview.Caller{Refused: true, Decisions: []gateview.Decision{held}}, sentence: "key:a is open for the analyzer, and closed at this gate", finding: "no such decision is in force"},
		"blocked here, open there":  {told: []apiv1.DecisionView{told}, sentence: "closed for the analyzer, and open at this gate", finding: "epoch 7, number 42"},
		"it reopens a little later": {rules: ended, gate: gateview.Caller{Refused: true, Decisions: []gateview.Decision{late}}, agrees: true, sentence: "reopens a little later", finding: "Rule ten has ended"},
		"the kill switch":           {told: []apiv1.DecisionView{told}, gate: gateview.Caller{Mode: "shadow", Decisions: []gateview.Decision{held}}, sentence: "open at this gate", finding: "in mode shadow, so it refuses nobody"},
		"another mode":              {told: []apiv1.DecisionView{told}, gate: gateview.Caller{Decisions: []gateview.Decision{shadow}}, sentence: "open at this gate", finding: "in mode enforce, and in mode shadow at the gate"},
		"stale, and ignored": {
			told: []apiv1.DecisionView{told}, gate: gateview.Caller{Fresh: 1, Stale: 1, AgeNS: 5 * second, Policy: "open", Decisions: []gateview.Decision{ignored}},
			sentence: "open at this gate", finding: "stopped coming to the gate, the oldest 5s ago. Its policy is open",
		},
		"cold": {told: []apiv1.DecisionView{told}, gate: gateview.Caller{Cold: 8}, sentence: "open at this gate", finding: "8 partitions are cold"},
		"full": {told: []apiv1.DecisionView{told}, gate: gateview.Caller{Dropped: 3}, sentence: "open at this gate", finding: "dropped 3 decisions"},
		"closed, for another reason": {
			told: []apiv1.DecisionView{told}, gate: gateview.Caller{Refused: true, Decisions: []gateview.Decision{{Rule: "other", Mode: "enforce", InForce: true, Until: now}}},
			sentence: "but not about why", finding: "Rule ten was published",
		},
	} {
		g := c.gate
		g.Kind, g.ID = "key", "a"
		if g.Mode == "" {
			g.Mode = "enforce"
		}
		if g.Cold == 0 && g.Fresh == 0 {
			g.Fresh = 8
		}
		got := Compare(&apiv1.Explanation{Now: now, Decisions: c.told, Rules: c.rules}, &g, "http://127.0.0.1:9095")
		if got.Agrees != c.agrees || !strings.Contains(got.Sentence, c.sentence) || got.URL == "" {
			t.Errorf("%s: got %+v, want agrees %v and %q", name, got, c.agrees, c.sentence)
		}
		if c.finding == "" && len(got.Findings) > 0 || c.finding != "" && !slices.ContainsFunc(got.Findings, func(f string) bool { return strings.Contains(f, c.finding) }) {
			t.Errorf("%s: got findings %q, want %q", name, got.Findings, c.finding)
		}
	}
}

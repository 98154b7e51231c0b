package analyzerprom_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/schemas"
)

// TestARuleShowsTheModesItHadBeenIn: its mode now, from the start, so that a rate has something to begin with; and the other
// one once it has done something there. What happened in one mode never counts as the other's.
func TestARuleShowsTheModesItHadBeenIn(t *testing.T) {
	for name, test := range map[string]struct {
		rule fold.RuleStats
		want string
	}{
		"new, and enforced": {fold.RuleStats{Mode: schemas.ModeEnforce}, `{mode="enforce",rule="r"} 0` + "\n"},
		"new, and on trial": {fold.RuleStats{Mode: schemas.ModeShadow}, `{mode="shadow",rule="r"} 0` + "\n"},
		"enforced after a trial": {
			fold.RuleStats{Mode: schemas.ModeEnforce, Shadowed: fold.Tally{Closes: 3}, Enforced: fold.Tally{Closes: 1}},
			`{mode="enforce",rule="r"} 1` + "\n" + `{mode="shadow",rule="r"} 3` + "\n",
		},
		"on trial again": {
			fold.RuleStats{Mode: schemas.ModeShadow, Enforced: fold.Tally{Closes: 5, Warnings: 2}},
			`{mode="enforce",rule="r"} 5` + "\n" + `{mode="shadow",rule="r"} 0` + "\n",
		},
	} {
		test.rule.Rule = "r"
		s := analyzer.OwnerStats{Fold: fold.Stats{Rules: []fold.RuleStats{test.rule}}}
		const metric = "floodgate_rule_closes_total"
		want := "# HELP " + metric + " Closes by rule and by the rule's mode.\n# TYPE " + metric + " counter\n" +
			metric + strings.ReplaceAll(strings.TrimSuffix(test.want, "\n"), "\n", "\n"+metric) + "\n"
		if err := testutil.CollectAndCompare(analyzerprom.New(analyzerOf{s}.Stats), strings.NewReader(want), metric); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHistogramsAreThere, as they were observed, and also before anything was: the lag of each partition, and the others of all.
func TestHistogramsAreThere(t *testing.T) {
	busy := analyzer.OwnerStats{Publish: analyzer.PublishStats{Lags: observed(histogram.Seconds(), 0.003, 90)}, Commits: observed(histogram.Seconds(), 0.2)}
	c := analyzerprom.New(analyzerOf{busy, {Partition: 1, Commits: observed(histogram.Seconds(), 0.1, 0.3)}}.Stats)
	for metric, want := range map[string]int{
		"floodgate_decision_lag_seconds": 2, "floodgate_overshoot_ratio": 1, "floodgate_overshoot_bound_ratio": 1, "floodgate_checkpoint_seconds": 1,
	} {
		if n := testutil.CollectAndCount(c, metric); n != want {
			t.Errorf("%s: got %d, want %d", metric, n, want)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range gathered {
		if h := f.GetMetric()[0].GetHistogram(); f.GetName() == "floodgate_checkpoint_seconds" && (h.GetSampleCount() != 3 || math.Abs(h.GetSampleSum()-0.6) > 1e-9) {
			t.Errorf("got %v, want the three checkpoints of both partitions", h)
		}
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("got %v and %v", problems, err)
	}
}

// TestARuleIsTheSumOfItsPartitions: one series for each rule and result, however many partitions an analyzer has, and it does not fall
// when a partition is given away.
func TestARuleIsTheSumOfItsPartitions(t *testing.T) {
	of := func(partition int, n uint64) analyzer.OwnerStats {
		return analyzer.OwnerStats{
			Partition: partition,
			Fold:      fold.Stats{Rules: []fold.RuleStats{{Rule: "r", Mode: schemas.ModeShadow, WouldBlock: n, Counted: 10 * n, Uncounted: 100 * n}}},
			Publish:   analyzer.PublishStats{ClosedBy: map[outbox.RuleMode]int{{Rule: "r", Mode: schemas.ModeShadow}: int(n)}},
		}
	}
	want := func(counted, wouldBlock, closed int) string {
		return fmt.Sprintf(`
# HELP floodgate_rule_closed Closures in force, by rule and by the mode in which they were decided.
# TYPE floodgate_rule_closed gauge
floodgate_rule_closed{mode="shadow",rule="r"} %d
# HELP floodgate_rule_requests_total Requests that a rule matches, by result. blocked: gates had refused them, by this rule or another about the same kind of caller. would_block: their caller was closed under the rule in mode shadow. counted: all others.
# TYPE floodgate_rule_requests_total counter
floodgate_rule_requests_total{result="blocked",rule="r"} 0
floodgate_rule_requests_total{result="counted",rule="r"} %d
floodgate_rule_requests_total{result="would_block",rule="r"} %d
`, closed, counted, wouldBlock)
	}
	owned := analyzerOf{of(0, 3), of(1, 4)}
	c := analyzerprom.New(func() []analyzer.OwnerStats { return owned })
	metrics := []string{"floodgate_rule_requests_total", "floodgate_rule_closed"}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want(70, 7, 7)), metrics...); err != nil {
		t.Error(err)
	}
	owned = analyzerOf{of(1, 5)}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want(80, 8, 5)), metrics...); err != nil {
		t.Errorf("after partition 0 was given away: %v", err)
	}
}

// TestModesByHandAreCountedOnce: they hold in every partition, and other records in that of their caller.
func TestModesByHandAreCountedOnce(t *testing.T) {
	of := func(partition, closes, modes int) analyzer.OwnerStats {
		return analyzer.OwnerStats{Partition: partition, Fold: fold.Stats{InForceBy: override.Counts{schemas.ControlClose: closes, schemas.ControlMode: modes}}}
	}
	const want = `
# HELP floodgate_control_in_force Control records in force in the partitions of this analyzer, by action. Those of action mode hold in every partition, and are counted once.
# TYPE floodgate_control_in_force gauge
floodgate_control_in_force{action="close"} 5
floodgate_control_in_force{action="limit"} 0
floodgate_control_in_force{action="mode"} 1
floodgate_control_in_force{action="open"} 0
`
	if err := testutil.CollectAndCompare(analyzerprom.New(analyzerOf{of(0, 2, 1), of(1, 3, 1), of(2, 0, 0)}.Stats), strings.NewReader(want), "floodgate_control_in_force"); err != nil {
		t.Error(err)
	}
}

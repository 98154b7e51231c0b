package analyzerprom_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// status is a RulesSource that a test makes up.
type status analyzer.RulesStatus

func (s status) RulesStatus(time.Time) analyzer.RulesStatus { return analyzer.RulesStatus(s) }

// doubtful is a status about which there is everything to say.
func doubtful(t *testing.T) status {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules: [{name: keys, callers: key, limit: 1, window: 1m}, {name: search, callers: ip_route, limit: 1, window: 1m, match: {resource: /x}}]"))
	if err != nil {
		t.Fatal(err)
	}
	return status{Set: set, Refused: errors.New("rules.yaml:4:1: bad"), Unused: []fold.UnusedRule{
		{Rule: set.Rules[0]}, {Rule: set.Rules[1], Requests: 10_000, Patterns: []string{"/x"}},
		{Rule: set.Rules[1], Requests: 10_000, Lacks: "none have come"},
	}}
}

// TestMetricsOfRulesAreThoseThatPeopleQuery is TestMetricsAreThoseThatPeopleQuery for the rules.
func TestMetricsOfRulesAreThoseThatPeopleQuery(t *testing.T) {
	file, err := os.Open("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := analyzerprom.NewRules(doubtful(t).RulesStatus)
	if err := testutil.CollectAndCompare(c, file); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v, want no problem", problems, err)
	}
	good := doubtful(t)
	good.Refused, good.Unused = nil, nil
	if n := testutil.CollectAndCount(analyzerprom.NewRules(good.RulesStatus)); n != 2 {
		t.Errorf("good rules: got %d series, want 2", n)
	}
}

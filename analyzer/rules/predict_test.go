package rules

import (
	"strings"
	"testing"
)

// predictOf returns what a rule with these fields predicts.
func predictOf(t *testing.T, fields string) (Predict, error) {
	t.Helper()
	s, err := Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: r, callers: key, limit: 10, "+fields+"}\n"))
	if err != nil {
		return PredictOff, err
	}
	return s.Rules[0].Predict, nil
}

func TestPredictOfARule(t *testing.T) {
	for fields, want := range map[string]Predict{
		"window: 1m":                   PredictShares,
		"window: 1m, predict: off":     PredictOff,
		"window: 1m, predict: early":   PredictEarly,
		"window: 1m, predict: shares":  PredictShares,
		"window: 24h":                  PredictShares,
		"window: day":                  PredictOff, // of the calendar, unless it is asked for
		"window: month":                PredictOff,
		"window: hour, predict: early": PredictEarly,
		"window: year, predict: off":   PredictOff,
	} {
		if got, err := predictOf(t, fields); err != nil || got != want {
			t.Errorf("%s: got %v and %v, want %v", fields, got, err, want)
		}
	}
}

func TestPredictIsRefusedWithWhatIsWanted(t *testing.T) {
	for _, value := range []string{"on", "Early", "''", "[early]", "1", "false", "null"} {
		_, err := predictOf(t, "window: 1m, predict: "+value)
		if err == nil || !strings.Contains(err.Error(), "rules.yaml:3:") || !strings.Contains(err.Error(), "shares") {
			t.Errorf("predict: %s: got %v, want the place and the names that there are", value, err)
		}
	}
	if _, err := ParsePredict("always"); err == nil || !strings.Contains(err.Error(), `"off" "early" "shares"`) {
		t.Errorf("got %v, want all names", err)
	}
	for _, name := range Predictions() {
		if p, err := ParsePredict(name); err != nil || p.String() != name {
			t.Errorf("%s: got %v and %v", name, p, err)
		}
	}
}

// A rule that predicts in another way is another version of the rule, and keeps its counts.
func TestPredictIsNotInTheShape(t *testing.T) {
	set := func(predict string) *Rule {
		s, err := Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: r, callers: key, limit: 10, window: 1m, predict: "+predict+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return s.Rules[0]
	}
	a, b := set("off"), set("early")
	if a.Shape() != b.Shape() || a.Fingerprint() == b.Fingerprint() {
		t.Errorf("got shapes %x and %x, fingerprints %x and %x: want equal shapes and other fingerprints", a.Shape(), b.Shape(), a.Fingerprint(), b.Fingerprint())
	}
}

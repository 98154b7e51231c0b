package remote

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// TestAVerdictIsSaidOnce: the rule that gives the verdict has the same sentence, and does not repeat it; other rules say theirs.
func TestAVerdictIsSaidOnce(t *testing.T) {
	const verdict, other = "key:a is closed until 12:01, by rule per-key.", "key:a is open: under rule per-day it has sent 1 of 9 requests."
	var out bytes.Buffer
	if err := printExplanation(&out, &apiv1.Explanation{Sentence: verdict, At: &apiv1.At{}, Rules: []apiv1.RuleExplanation{
		{RuleState: apiv1.RuleState{Rule: "per-key", Version: "0a", Mode: "enforce", Window: "1m sliding"}, Sentence: verdict},
		{RuleState: apiv1.RuleState{Rule: "per-day", Version: "0b", Mode: "enforce", Window: "1d fixed"}, Sentence: other},
	}}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.HasPrefix(text, verdict+"\n") || strings.Count(text, verdict) != 1 || strings.Count(text, other) != 1 ||
		!strings.Contains(text, "\nper-key (version 0a, enforce, 1m sliding)\n") {
		t.Errorf("got\n%s\nwant each sentence once", text)
	}
}

// TestPartsOfLongWindowsHaveAYear: a window of a year begins and ends on the same day; short ones have milliseconds instead.
func TestPartsOfLongWindowsHaveAYear(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for length, want := range map[time.Duration]string{
		100 * time.Millisecond: "03-02 12:00:00.000 | 03-02 12:00:00.100", time.Minute: "2026-03-02 12:00:00 | 2026-03-02 12:01:00",
		365 * 24 * time.Hour: "2026-03-02 12:00:00 | 2027-03-02 12:00:00",
	} {
		var b strings.Builder
		drawParts(&b, &apiv1.RuleExplanation{RuleState: apiv1.RuleState{Parts: []apiv1.Part{{From: noon, Until: noon.Add(length), Weight: 3}}}})
		if !strings.Contains(b.String(), want) {
			t.Errorf("%v: got\n%s\nwant %q", length, b.String(), want)
		}
	}
}

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

// TestWindowsAndAmountsAreThoseOfTheRule: a month of the calendar is no number of hours, a cost is called so, and a caller that is opened
// has no limit.
func TestWindowsAndAmountsAreThoseOfTheRule(t *testing.T) {
	month := apiv1.RuleExplanation{RuleState: apiv1.RuleState{
		Rule: "per-month", Window: "month from day 15, Europe/Berlin", Measure: "cost", Counted: true, Count: 844, Remaining: 156, Limit: apiv1.Limit{Limit: 1000, Capacity: 1000},
	}}
	opened := month
	opened.Rule, opened.Remaining, opened.Limit = "opened", 0, apiv1.Limit{Limit: 1e12, Capacity: 1e12, Unlimited: true, Override: "a"}
	decision := apiv1.DecisionView{Rule: "per-month", Count: 1000, Limit: 1000, WindowNS: int64(31 * 24 * time.Hour)}
	gone := decision
	gone.Rule = "gone"
	var out bytes.Buffer
	if err := printExplanation(&out, &apiv1.Explanation{At: &apiv1.At{}, Rules: []apiv1.RuleExplanation{month, opened}, Decisions: []apiv1.DecisionView{decision, gone}}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"  counted: 844 of 1000 cost, 156 left\n", "  counted: 844 cost, no limit\n", "1000 of 1000 cost in month,", "1000 of 1000 in 31d,"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q", text, want)
		}
	}
	if strings.Contains(text, "1000000000000") {
		t.Errorf("got\n%s\nwant no limit of a caller that has none", text)
	}
}

// TestWhatRequestsInFlightHold, of a caller and in a decision, and amounts of requests in flight, which have no window.
func TestWhatRequestsInFlightHold(t *testing.T) {
	held := apiv1.RuleExplanation{RuleState: apiv1.RuleState{
		Rule: "tokens", Window: "1m fixed", Measure: "cost", Counted: true, Count: 71200, Remaining: 28800, Limit: apiv1.Limit{Limit: 100000, Capacity: 100000},
		Room: &apiv1.Room{InFlight: 14, Held: 21400, Margin: 8900, Left: -2105, Mean: 1210, Learned: 128, DurationNS: 8e9},
	}}
	estimated := held
	estimated.Rule, estimated.Room = "new", &apiv1.Room{InFlight: 1, Held: 1000, Left: 98500, Mean: 1000}
	streams := apiv1.RuleExplanation{RuleState: apiv1.RuleState{
		Rule: "streams", Window: "in flight, 10m at most", Measure: "in_flight", Counted: true, Count: 20, Limit: apiv1.Limit{Limit: 20, Capacity: 20},
	}}
	var out bytes.Buffer
	if err := printExplanation(&out, &apiv1.Explanation{At: &apiv1.At{}, Rules: []apiv1.RuleExplanation{held, estimated, streams}, Decisions: []apiv1.DecisionView{
		{Rule: "tokens", Count: 70000, Limit: 100000, WindowNS: int64(time.Minute), Early: true, Hold: &apiv1.Hold{InFlight: 13, Held: 20000, Margin: 8000, Learned: 120}},
		{Rule: "streams", Count: 20, Limit: 20, WindowNS: int64(10 * time.Minute)},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  counted: 71200 of 100000 cost, 28800 left\n  in flight: 14, expected to cost 21400; margin 8900; 0 left\n  a request: 1210 in 8s on average, from 128 responses\n",
		"  in flight: 1, expected to cost 1000; margin 0; 98500 left\n  a request: 1000 by the rule's estimate\n",
		"  counted: 20 of 20 in flight, 0 left\n",
		"; 70000 of 100000 cost in 1m + 20000 expected of 13 in flight + 8000 margin, decided",
		"; 20 of 20 in flight, decided",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q", out.String(), want)
		}
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

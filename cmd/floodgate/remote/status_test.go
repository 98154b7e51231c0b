package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// TestStatusSaysWhichPartitionsDiffer, and how to see what differs.
func TestStatusSaysWhichPartitionsDiffer(t *testing.T) {
	of := func(p int, id string, stale bool) apiv1.PartitionStatus {
		return apiv1.PartitionStatus{PartitionView: apiv1.PartitionView{Partition: p, RulesID: id, Stale: stale}}
	}
	got := byRules([]apiv1.PartitionStatus{of(0, "aa", false), of(1, "bb", false), of(2, "aa", false), of(3, "cc", true), of(4, "", false)})
	if want := "0, 2 by aa; 1 by bb. floodgate rules diff aa bb"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestStatusShowsWhatIsWrongAtNight: a brake that somebody has pulled, Kafka away, and a backlog.
func TestStatusShowsWhatIsWrongAtNight(t *testing.T) {
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	s := apiv1.Status{
		RulesAgree: true,
		Kafka:      apiv1.KafkaStatus{Since: at, Brokers: []string{"kafka-1:9092", "kafka-2:9092"}, Error: "refused"},
		Rules:      apiv1.RulesStatus{Modes: []apiv1.Mode{{Rule: "per-ip", File: "enforce", Effective: "shadow"}, {Rule: "trial", File: "shadow", Effective: "shadow"}}},
		Brakes: []apiv1.Action{
			{ID: "0123", Author: "ana", Reason: "ticket 4711", Time: at, Until: at.Add(time.Hour), State: apiv1.StateInForce},
			{ID: "4567", Rule: "trial", Author: "ben", Reason: "too", Time: at, Until: at.Add(time.Hour), State: apiv1.StateWaiting},
		},
	}
	text := strings.Join(statusLines(&s), "\n")
	for _, want := range []string{
		"KAFKA IS AWAY: no broker of kafka-1:9092,kafka-2:9092 has answered since 2026-11-27 03:00:00 UTC: refused.",
		"BRAKE: all rules in shadow mode until 2026-11-27 04:00:00 UTC, whatever the file says (it would enforce per-ip); by ana at 2026-11-27 03:00:00 UTC: ticket 4711. To end it: floodgate undo 0123",
		"BRAKE: rule trial in shadow mode until 2026-11-27 04:00:00 UTC, whatever the file says (no rule of it would enforce); by ben",
		"floodgate undo 4567 (some analyzers have not applied it yet)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q", text, want)
		}
	}
	p := apiv1.PartitionStatus{PartitionView: apiv1.PartitionView{Backlog: 1234, BehindNS: 5_123_000_000}}
	if got := backlogText(&p); got != "1234, 5.1s behind" {
		t.Errorf("got %q, want the backlog and its age", got)
	}
}

// TestNoTimeAndNoLagAreNoNumbers: a partition without entries has no log time, and one without closes no lag.
func TestNoTimeAndNoLagAreNoNumbers(t *testing.T) {
	if got := whenUTC(time.Time{}) + lagText(0); got != "--" {
		t.Errorf("got %q, want a dash for each", got)
	}
}

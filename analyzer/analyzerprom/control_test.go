package analyzerprom_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// TestTheMetricsSayWhetherAPersonCanAct: a person on call needs to know at night whether that will work.
func TestTheMetricsSayWhetherAPersonCanAct(t *testing.T) {
	for name, c := range map[string]struct {
		stats            analyzer.ControlStats
		unreadable, rest string
	}{
		"all is applied":       {analyzer.ControlStats{Next: 7, End: 7}, "0", "0"},
		"some wait":            {analyzer.ControlStats{Next: 7, End: 9}, "0", "2"},
		"the topic is away":    {analyzer.ControlStats{Next: 7, End: 7, Trouble: errors.New("away")}, "1", "0"},
		"it was made anew":     {analyzer.ControlStats{Next: 7, End: 3, Again: 1}, "0", "0"},
		"away, and some wait":  {analyzer.ControlStats{Next: 7, End: 9, Trouble: errors.New("away")}, "1", "2"},
		"its end is not known": {analyzer.ControlStats{Next: 7}, "0", "0"},
	} {
		want := "# HELP floodgate_control_lag_records Records of the topic of control that are not applied yet.\n" +
			"# TYPE floodgate_control_lag_records gauge\nfloodgate_control_lag_records{partition=\"0\"} " + c.rest + "\n" +
			"# HELP floodgate_control_unreadable 1 while the topic of control cannot be read: nobody can close or open callers by hand.\n" +
			"# TYPE floodgate_control_unreadable gauge\nfloodgate_control_unreadable{partition=\"0\"} " + c.unreadable + "\n"
		err := testutil.CollectAndCompare(analyzerprom.New(analyzerOf{{Control: c.stats}}.Stats), strings.NewReader(want),
			"floodgate_control_lag_records", "floodgate_control_unreadable")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Somebody who waits for events needs to know whether the topic takes them.
func TestTheMetricsSayWhetherEventsAreWritten(t *testing.T) {
	s := analyzer.OwnerStats{}
	s.Events.Pending, s.Events.Lost, s.Events.Written = 3, 5, map[event.Type]uint64{event.Closed: 7, event.Gap: 1}
	want := "# HELP floodgate_events_lost_total Events that did not fit while the topic of events took none: a gap event stands for them.\n" +
		"# TYPE floodgate_events_lost_total counter\nfloodgate_events_lost_total{partition=\"0\"} 5\n" +
		"# HELP floodgate_events_pending Events that the topic of events has not acknowledged.\n" +
		"# TYPE floodgate_events_pending gauge\nfloodgate_events_pending{partition=\"0\"} 3\n" +
		"# HELP floodgate_events_total Events in the topic of events, by type; copies after a restart count again.\n# TYPE floodgate_events_total counter\n"
	for _, of := range []event.Type{"closed", "ended", "extended", "gap", "control", "opened", "rules_changed", "warned"} {
		want += fmt.Sprintf("floodgate_events_total{type=%q} %d\n", of, s.Events.Written[of])
	}
	err := testutil.CollectAndCompare(analyzerprom.New(analyzerOf{s}.Stats), strings.NewReader(want),
		"floodgate_events_total", "floodgate_events_pending", "floodgate_events_lost_total")
	if err != nil {
		t.Error(err)
	}
}

// The command line and the API show actions by these names.
func TestEachActionIsShownFromTheStart(t *testing.T) {
	const metric = "floodgate_control_applied_total"
	want := "# HELP " + metric + " Control records applied, by action; those of action mode once in each partition.\n# TYPE " + metric + " counter\n"
	for _, action := range []string{"close", "limit", "mode", "open", "reset", "undo"} {
		want += metric + `{action="` + action + `"} ` + map[bool]string{true: "3", false: "0"}[action == "undo"] + "\n"
	}
	s := analyzer.OwnerStats{}
	s.Control.Applied[schemas.ControlUndo] = 3
	if err := testutil.CollectAndCompare(analyzerprom.New(analyzerOf{s}.Stats), strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
}

// TestTheMetricsSayWhichRulesAreBraked and since when, so that an alert can be about the minutes that a person has set. Rules that are in
// shadow by their file are not among them.
func TestTheMetricsSayWhichRulesAreBraked(t *testing.T) {
	of := func(partition int, since ...int64) (s analyzer.OwnerStats) {
		s.Partition = partition
		for i, at := range since {
			s.Fold.Rules = append(s.Fold.Rules, fold.RuleStats{Rule: fmt.Sprint("rule-", i), Mode: schemas.ModeShadow, ByHand: at})
		}
		return s
	}
	want := "# HELP floodgate_brake_since_seconds Unix time since which a control record of action mode has the rule in shadow, whatever its file says. " +
		"Only rules with such a record have it.\n# TYPE floodgate_brake_since_seconds gauge\n" +
		"floodgate_brake_since_seconds{rule=\"rule-1\"} 2.5\nfloodgate_brake_since_seconds{rule=\"rule-2\"} 3\n"
	owners := analyzerOf{of(0, 0, 4e9, 3e9), of(1, 0, 25e8, 0)} // partition 1 knows of rule 1 by an older record, and of rule 2 not yet
	err := testutil.CollectAndCompare(analyzerprom.New(owners.Stats), strings.NewReader(want), "floodgate_brake_since_seconds")
	if err != nil {
		t.Error(err)
	}
}

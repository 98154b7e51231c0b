package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// What the fake API answers. Clients chose some of the texts.

var (
	noisy   = apiv1.Caller{Kind: "key", ID: "noisy\x1b[2J"}
	harmful = apiv1.Caller{Kind: "key", ID: "$(reboot)"}
	bytes8  = apiv1.Caller{Kind: "key", ID: "\ufffd", IDBase64: []byte{0xff}}
	plainID = apiv1.Caller{Kind: "key", ID: "noisy-1"}
)

func apiStatus() apiv1.Status {
	s := apiv1.Status{
		Now: apiNoon, Version: "v1", Who: "alice", Role: "operate", Tokens: true, API: "10.0.0.1:9096", RulesAgree: false, Kafka: apiv1.KafkaStatus{Reachable: true},
		Board: apiv1.BoardStatus{Ready: true, Decisions: 3, Incomplete: []int{1}}, Control: apiv1.ControlStatus{Ready: true, Next: 7},
		Rules: apiv1.RulesStatus{ID: "00000000000000aa", Count: 1, Refused: "rules.yaml:3:1: got limt, want limit"},
	}
	for p, age := range []float64{0.2, 7} {
		v := apiv1.PartitionStatus{PartitionView: apiv1.PartitionView{
			Partition: p, State: "running", Epoch: 5, Offset: 1000, LogTime: apiAt(-1), Beat: apiAt(-age), LagNS: 4_200_000, RulesID: "00000000000000aa",
		}, API: "10.0.0.1:9096", Here: p == 0, Control: 7, RulesFrom: 600}
		if v.Stale = age > 3; v.Stale {
			v.State = "silent"
		}
		s.Partitions = append(s.Partitions, v)
	}
	return s
}

func apiCallers() apiv1.CallerList {
	return apiv1.CallerList{Sort: "share", Total: 3, Callers: []apiv1.CallerLine{
		{Rule: "per-key", Caller: noisy, Mode: "enforce", Count: 520, Limit: 500, Share: 1.04, Closed: true, Until: apiAt(60)},
		{Rule: "per-key", Caller: bytes8, Mode: "shadow", Count: 400, Limit: 500, Share: 0.8, LowerBound: true},
	}, Next: "page2"}
}

// apiAllCallers is the list of all callers, in pieces and in no order.
func apiAllCallers() []apiv1.CallerList {
	first := apiCallers()
	last := apiv1.CallerLine{Rule: "per-key", Caller: plainID, Mode: "enforce", Count: 1, Limit: 500, Unlimited: true}
	return []apiv1.CallerList{
		{Sort: "share", Total: 2, Callers: []apiv1.CallerLine{last, first.Callers[1]}},
		{Sort: "share", Callers: []apiv1.CallerLine{}},
		{Sort: "share", Total: 1, Callers: first.Callers[:1]},
		{Sort: "share", Callers: []apiv1.CallerLine{}, Missing: []int{1}},
	}
}

func apiBusy() apiv1.Busy {
	return apiv1.Busy{Sort: "rate", HalfNS: 20e9, Callers: []apiv1.BusyCaller{{Partition: 1, Caller: noisy, Admitted: 12.34, AdmittedError: 6.5, Blocked: 1000}}}
}

func apiDecision(c apiv1.Caller, rule string) apiv1.DecisionView {
	return apiv1.DecisionView{
		Rule: rule, Caller: c, Mode: "enforce", CloseAt: apiAt(0), Until: apiAt(60), InForce: true, Partition: 2, Epoch: 5, Seq: 9,
		Count: 500, Limit: 500, WindowNS: int64(time.Minute), Offset: 77, EntryTime: apiAt(0), LagNS: 4_000_000,
	}
}

func apiDecisions(cursor string) apiv1.DecisionList {
	list := apiv1.DecisionList{Now: apiNoon, Ready: true, Next: "page2", Decisions: []apiv1.DecisionView{
		apiDecision(noisy, "per-key"), apiDecision(harmful, "per-key"), apiDecision(bytes8, "per-key"),
		apiDecision(plainID, "per-key"), apiDecision(plainID, "another"),
	}}
	if cursor == "page2" {
		last := apiDecision(apiv1.Caller{Kind: "ip", ID: "2001:db8::"}, "per-ip")
		last.Shared, last.Mode = true, "shadow"
		list.Next, list.Decisions, list.Incomplete = "", []apiv1.DecisionView{last}, []int{1}
	}
	return list
}

// apiStream is a stream, in two parts: it breaks, and goes on behind its last event.
func apiStream(last string) string {
	var b strings.Builder
	event := func(e apiv1.DecisionEvent) {
		data, _ := json.Marshal(e) // a test's own
		fmt.Fprintf(&b, ": still here\n\nevent: %s\nid: %d\ndata: %s\n\n", e.Kind, e.Number, data)
	}
	a, c := apiDecision(noisy, "per-key"), apiDecision(plainID, "per-key")
	switch last {
	case "":
		event(apiv1.DecisionEvent{Kind: "in_force", Number: 10, Decision: &a})
		event(apiv1.DecisionEvent{Kind: "current", Number: 10})
		event(apiv1.DecisionEvent{Kind: "closed", Number: 11, At: apiAt(1), Decision: &c})
	case "11":
		event(apiv1.DecisionEvent{Kind: "opened", Number: 12, At: apiAt(2), Decision: &c})
		event(apiv1.DecisionEvent{Kind: "a later kind", Number: 13})
		event(apiv1.DecisionEvent{Kind: "lost", Number: 5000, Missed: 900})
		event(apiv1.DecisionEvent{Kind: "in_force", Number: 5000, Decision: &c})
		event(apiv1.DecisionEvent{Kind: "current", Number: 5000})
		b.WriteString("event: end\ndata: {\"why\":\"revoked\"}\n\n")
	}
	return b.String()
}

func apiExplanation() apiv1.Explanation {
	d := apiDecision(noisy, "per-key")
	return apiv1.Explanation{
		At: &apiv1.At{Partition: 2, Epoch: 5, Offset: 1234, LogTime: apiAt(1)}, Now: apiAt(2), Caller: noisy, Verdict: apiv1.Closed,
		Sentence: `key:noisy\x1b[2J is closed until 12:01, by rule per-key` + "\x1b[2J\n", Rule: "per-key", Until: apiAt(60),
		Partition: apiv1.PartitionView{Partition: 2, State: "running"}, Decisions: []apiv1.DecisionView{d},
		Rules: []apiv1.RuleExplanation{{
			RuleState: apiv1.RuleState{
				Rule: "per-key", Version: "00000000000000cc", Mode: "enforce", Window: "1m sliding", Measure: "requests", Counted: true, Count: 500, MoreParts: 1,
				Limit: apiv1.Limit{Limit: 500, Capacity: 500, Override: "noisy*", By: &apiv1.ControlRecord{Action: "limit", Author: "bob", Reason: "sale\x1b", Time: apiAt(-9), Until: apiAt(99), ID: "0a"}},
				Parts: []apiv1.Part{{From: apiAt(-60), Until: apiAt(0), Weight: 100}, {From: apiAt(0), Until: apiAt(60), Weight: 400}},
			},
			Verdict: apiv1.Closed, Sentence: "closed, the 2nd time in a row", Decision: &d,
		}},
	}
}

// apiActions is the list of records in a state; "" is the first page of all.
func apiActions(state string) apiv1.ActionList {
	list := apiv1.ActionList{Now: apiNoon, Next: "more", Actions: []apiv1.Action{
		{ID: "00112233445566778899aabbccddeeff", Time: apiAt(-60), Author: "alice", Reason: "ticket\x1b 4711", Action: "open", Caller: &noisy, Until: apiAt(60), State: apiv1.StateInForce},
		{
			ID: "10112233445566778899aabbccddeeff", Time: apiAt(-90), Author: "bob", Reason: "trial", Action: "mode", Rule: "per-ip", Until: apiAt(60), State: apiv1.StateUndone,
			UndoneBy: &apiv1.UndoneBy{ID: "20", Time: apiAt(-30), Author: "alice", Reason: "over"},
		},
	}}
	if state != "" {
		list.Next = ""
		list.Actions = slices.DeleteFunc(list.Actions, func(a apiv1.Action) bool { return a.State != state })
	}
	return list
}

func apiVersions() apiv1.RulesVersions {
	return apiv1.RulesVersions{Versions: []apiv1.RulesVersion{
		{ID: "00000000000000bb", Time: apiAt(0), Author: "analyzer-1", Reason: "rules.yaml", InUse: true, Partitions: []int{0, 1}},
		{ID: "00000000000000aa", Time: apiAt(-3600), Author: "analyzer-2", Reason: "rules.yaml"},
	}}
}

func apiTry() apiv1.TryAnswer {
	return apiv1.TryAnswer{Admitted: 2, Sentence: "2 of 5 requests would pass", Callers: []apiv1.TryCaller{{
		Caller: plainID, Rules: []apiv1.TryRule{{Rule: "per-key", Mode: "enforce", Before: 498, After: 503, Limit: 500, Admitted: 2, Closes: true, Until: apiAt(60)}},
	}}}
}

// apiDiff is the same difference for any two versions that are not one.
func apiDiff(from, to string) apiv1.RulesDiff {
	d := apiv1.RulesDiff{From: from, To: to, Same: from == to, Unchanged: 1}
	if !d.Same {
		d.Rules = []apiv1.RuleDiff{{Rule: "per-key", Change: apiv1.DiffChanged, Counts: apiv1.CountsKept, Fields: []apiv1.FieldDiff{{Field: "limit", Before: "100", After: "500"}}}}
	}
	return d
}

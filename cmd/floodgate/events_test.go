package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// apiDecisionsOf is what the fake API answers: with since, two pages of events of which clients and later versions chose some texts.
func apiDecisionsOf(q url.Values) apiv1.DecisionList {
	if !q.Has("since") {
		return apiDecisions(q.Get("cursor"))
	}
	list := apiv1.DecisionList{Now: apiNoon, Ready: true, Decisions: []apiv1.DecisionView{}}
	if q.Get("cursor") == "" {
		list.Next = "page2"
		list.Events = []apiv1.Event{
			{ID: "1", Type: "closed", Time: apiAt(0), Caller: &noisy, Rule: "per-key", Mode: "enforce", CloseAt: apiAt(0), Until: apiAt(60), Count: 500, Limit: 500},
			{ID: "2", Type: "warned", Time: apiAt(1), Caller: &bytes8, Rule: "per-key", Mode: "shadow", Count: 400, Limit: 500, Share: 0.8},
			{ID: "3", Type: "extended", Time: apiAt(2), Caller: &noisy, Rule: "per-key", Mode: "enforce", CloseAt: apiAt(0), Until: apiAt(90)},
		}
		return list
	}
	list.Events = []apiv1.Event{
		{ID: "4", Type: "ended", Time: apiAt(90), Caller: &noisy, Rule: "per-key", Mode: "enforce", CloseAt: apiAt(0), Until: apiAt(90)},
		{ID: "5", Type: "control", Time: apiAt(91), Caller: &plainID, Action: "open", Author: "alice", Reason: "asked\x1b[2J", Record: "0f", Rule: "per-key"},
		{ID: "6", Type: "rules_changed", Time: apiAt(92), RulesFrom: "aa", RulesTo: "bb"},
		{ID: "7", Type: "gap", Time: apiAt(93), Partition: 2, From: 10, To: 20},
		{ID: "8", Type: "opened", Time: apiAt(94), Caller: &plainID, Rule: "per-key", Mode: "enforce"},
		{ID: "10", Type: "warned", Time: apiAt(94), Caller: &plainID, Rule: "search", Mode: "enforce", Count: 40000, Limit: 50000, Share: 0.8, Together: true},
		{ID: "9", Type: "painted\x1b", Time: apiAt(95), Caller: &plainID, Rule: "per-key"},
	}
	return list
}

// TestDecisionsSincePrintsWhatHasHappened: both pages, and nothing that does something to a terminal.
func TestDecisionsSincePrintsWhatHasHappened(t *testing.T) {
	t.Parallel()
	api := serveAPI(t)
	out, err := runCommand("decisions", "--api", api.URL, "--since", "24h")
	if err != nil || strings.Contains(out, "\x1b") {
		t.Fatalf("got %v,\n%q", err, out)
	}
	for _, want := range []string{
		`closed key:noisy\x1b[2J by per-key until`, ": 500 of 500\n", `warned key:\xff by per-key (shadow): 400 of 500, over 80 %`, "extended key:noisy",
		"ended key:noisy", `open key:noisy-1 under per-key by hand: alice: asked\x1b[2J (0f)`, "rules changed from aa to bb",
		"events may be missing: partition 2, offsets 10 until 20", "opened key:noisy-1 by per-key", `painted\x1b key:noisy-1`, "warned all callers by search: 40000 of 50000, over 80 %\n", "10 events since ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}
	out, err = runCommand("decisions", "--api", api.URL, "--since", "2026-01-31T12:00:00Z", "--output", "json")
	if err != nil || strings.Count(out, "\n") != 11 || !strings.Contains(out, `"events":10`) || strings.Contains(out, "\x1b") {
		t.Errorf("got %v,\n%s\nwant 10 events and a summary", err, out)
	}
}

// TestAnAnalyzerTellsWhatHasHappened: a real one, from the close of a caller to the line that a person reads.
func TestAnAnalyzerTellsWhatHasHappened(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	a, url := beginAnalyze(t, b.Addr(), t.TempDir(), "--api-listen", "127.0.0.1:0")
	api := "http://" + a.WaitFor(`listening for the API.* address=(\S+)`, 30*time.Second)
	processtest.AwaitReady(t, url, 200, "ok")
	for seq := range uint64(6) {
		sendTo(t, b.Addr(), "noisy", 2, seq+1)
	}
	processtest.Eventually(t, 30*time.Second, "told of the close", func() bool {
		out, err := runCommand("decisions", "--api", api, "--since", "1h")
		return err == nil && matches(`closed key:noisy by r until .*: \d+ of 5`, out)
	})
}

// TestSinceIsAlone: it is a time or a length, and asks the API.
func TestSinceIsAlone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--since", "yesterday"}, {"--since", "-1h"}, {"--since", "1h", "--watch"}, {"--since", "1h", "--brokers", "127.0.0.1:1"},
	} {
		if out, err := runCommand(append([]string{"decisions"}, args...)...); err == nil || !strings.Contains(err.Error(), "--since") {
			t.Errorf("%v: got %v,\n%s\nwant an error about --since", args, err, out)
		}
	}
}

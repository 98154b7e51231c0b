package main

import (
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// TestKeysCanBeSwitchedOff in their dialog, and on again. The browser remembers it. The keys that are longer than one sign still work.
func TestKeysCanBeSwitchedOff(t *testing.T) {
	b := newBrowser(t)
	f := &fake{closures: 3}
	v := visit(t, b, f.serve(t)+"/ui/", view{width: 360, height: 740})
	v.live()
	v.presses("?")
	v.sees(`document.querySelector("#keys-on").checked`)
	v.clicks("#keys-on")
	v.clicks("dialog[open] button.primary")
	if _, err := value[bool](v.tab, `(window.before = true, location.reload(), true)`); err != nil {
		t.Fatal(err)
	}
	v.sees(`!window.before && performance.getEntriesByName("floodgate-live").length > 0`)
	v.presses("j?/")
	v.is(`!document.querySelector("[aria-selected=true], dialog, #find:focus")`, "keys that do nothing")

	v.clicks("#help")
	v.sees(`document.querySelector("#keys-on") && !document.querySelector("#keys-on").checked`)
	v.clicks("#keys-on")
	v.clicks("dialog[open] button.primary")
	v.presses("j")
	v.sees(`document.querySelector("[role=row][aria-selected=true]")`)
	v.is(`localStorage.length === 0`, "nothing kept of what everybody has")
}

// TestBanners of partitions that cannot write to the disk, and of analyzers whose rules differ; both go when all is well.
func TestBanners(t *testing.T) {
	b := newBrowser(t)
	well := make(chan struct{})
	f := &fake{status: func(s *apiv1.Status) {
		for i := range 2 {
			s.Partitions = append(s.Partitions, apiv1.PartitionStatus{PartitionView: apiv1.PartitionView{Partition: i, State: "running", Beat: s.Now}})
		}
		select {
		case <-well:
		default:
			s.Partitions[1].State, s.RulesAgree = "memory-only", false
		}
	}}
	v := visit(t, b, f.serve(t)+"/ui/", view{})
	v.reads("[data-banner=memory]", "partition 1 cannot write to the disk")
	v.reads("[data-banner=rules]", "count by different rules")
	v.reads("[data-partition='1'] .state[data-level=warn]", "memory-only")
	close(well)
	v.sees(`document.querySelectorAll(".banner").length === 0`)
}

// TestRulesSayWhatTheyHold, and below them which of them lack what they need, until it comes.
func TestRulesSayWhatTheyHold(t *testing.T) {
	b := newBrowser(t)
	well := make(chan struct{})
	f := &fake{
		rules: []apiv1.Rule{
			{Name: "tokens", Callers: "key", Limit: 100000, Measure: "cost", Window: "1m fixed", Charge: "arrival", Hold: "1000 each, margin 2, 10m at most", Mode: "enforce"},
			{Name: "streams", Callers: "key", Limit: 20, Measure: "in_flight", Window: "in flight, 10m at most", Mode: "enforce"},
		},
		status: func(s *apiv1.Status) {
			select {
			case <-well:
			default:
				s.Rules.Unused = []string{"rule tokens: 0 arrivals have come with 40 responses"}
			}
		},
	}
	v := visit(t, b, f.serve(t)+"/ui/#/rules", view{})
	v.reads("tr[data-rule=tokens]", "charged at arrival")
	v.reads("tr[data-rule=tokens]", "holds 1000 each, margin 2, 10m at most")
	v.reads("tr[data-rule=streams]", "in flight, 10m at most")
	v.reads(".unused .banner", "rule tokens: 0 arrivals have come with 40 responses")
	close(well)
	v.sees(`document.querySelectorAll(".unused .banner").length === 0`)
}

// TestRequestsInFlightAreSaid in the list of closed callers and on the page of one.
func TestRequestsInFlightAreSaid(t *testing.T) {
	b := newBrowser(t)
	now := time.Now().UTC()
	room := &apiv1.Room{InFlight: 14, Held: 21400, Margin: 8900, Left: -2105, Mean: 1210, Learned: 128, DurationNS: 8e9}
	f := &fake{
		closures: 2,
		rules:    []apiv1.Rule{{Name: "tokens", Measure: "cost", Window: "1m fixed"}, {Name: "streams", Measure: "in_flight", Window: "in flight, 10m at most"}},
		decide: func(i int, d *apiv1.DecisionView) {
			if d.Rule = "streams"; i == 0 {
				d.Rule, d.Count, d.Limit, d.Early = "tokens", 71200, 100000, true
				d.Hold = &apiv1.Hold{InFlight: 14, Held: 21400, Margin: 8900, Learned: 128}
			}
		},
		explain: apiv1.Explanation{
			Now: now, Caller: apiv1.Caller{Kind: "key", ID: "abuser-0000000"}, Verdict: apiv1.ClosedEarly, Rule: "tokens", Until: now.Add(time.Minute),
			Partition: apiv1.PartitionView{State: "running"}, Decisions: []apiv1.DecisionView{},
			Rules: []apiv1.RuleExplanation{{RuleState: apiv1.RuleState{
				Rule: "tokens", Window: "1m fixed", Measure: "cost", Mode: "enforce", Counted: true, Count: 71200, Limit: apiv1.Limit{Limit: 100000, Capacity: 100000, Source: "rule"}, Room: room,
			}}},
		},
	}
	v := visit(t, b, f.serve(t)+"/ui/", view{})
	v.live()
	v.reads("[data-panel=closed]", "71,200 of 100,000 in 1 min · 21,400 expected of 14 in flight · margin 8,900")
	v.reads("[data-panel=closed]", "100 of 100 in flight")
	v.goes("#/caller/key:abuser-0000000")
	v.reads("[data-rule=tokens] .facts", "In flight14 (8 s on average; 1,210 each, from 128 responses)Expected of them21,400Margin8,900Left0")
}

// TestWhatHasOpenedIsNotCounted: it stays in the list for a moment, so that lines do not jump.
func TestWhatHasOpenedIsNotCounted(t *testing.T) {
	b := newBrowser(t)
	v := visit(t, b, new(fake).serve(t)+"/ui/", view{})
	v.live()
	got, err := value[string](v.tab, `import("/ui/js/closedlist.js").then(({ClosedList}) => {
		const made = (key, until, endedAt) => ({key, caller: {kind: "key", id: key}, label: key, rule: "r", until, endedAt, closeAt: 0});
		const items = [made("closed", Date.now() + 1e6, 0), made("over", Date.now() - 1e6, 0), made("opened", Date.now() + 1e6, Date.now())];
		const list = new ClosedList({complete: true, byKey: new Map(), rules: new Set(), list: () => items}, () => {});
		list.draw();
		return list.count.textContent;
	})`)
	v.check(err)
	if got != "1" {
		t.Errorf("got %s closed callers, want 1", got)
	}
}

// TestALongName does not hide what the page says of the caller, and times are those of the browser's zone, as everywhere on the page.
func TestALongName(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	name := strings.Repeat("eyJhbGciOiJIUzI1NiJ9.", 12)
	c.send("Key", name, 8)
	v := visit(t, b, c.page("operate", "/"), view{width: 360, height: 740})
	v.live()
	v.sees(row("key:" + name[:20]))
	v.presses("j\r")
	v.sees(`document.querySelector(".verdict").dataset.verdict === "closed"`)
	v.is(`/^This caller is closed until \d\d:\d\d:\d\d \S+, /.test(document.querySelector(".sentence").textContent)`, "a sentence without the name, and a time of day")
	v.is(`document.querySelector("h1").textContent.length > 200`, "the whole name above it")

	got, err := value[string](v.tab, `import("/ui/js/format.js").then(({sentenceHere, time}) => {
		const at = "2026-01-02T03:04:05Z";
		return [sentenceHere("key:" + at + " is closed until " + at + ".", "key:" + at), time(Date.parse(at))].join("|");
	})`)
	v.check(err)
	sentence, at, _ := strings.Cut(got, "|")
	if want := "key:2026-01-02T03:04:05Z is closed until " + at + "."; sentence != want {
		t.Errorf("got %q, want %q: a name stays as it is", sentence, want)
	}
}

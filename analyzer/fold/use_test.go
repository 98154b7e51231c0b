package fold

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// usedRules is a rule for each way in which a rule can be without effect.
const usedRules = `
version: 1
rules:
  - {name: per-ip, callers: ip, limit: 100, window: 1m}
  - {name: per-key, callers: key, limit: 100, window: 1m}
  - {name: errors, callers: ip, limit: 100, window: 1m, match: {status: 5xx}}
  - {name: search, callers: ip_route, limit: 100, window: 1m, match: {resource: ["GET /search*", /find, "POST /never"]}}
`

func unusedTexts(set *rules.Set, patience uint64, folds ...*Fold) string {
	var stats []*Stats
	for _, f := range folds {
		s := f.Stats()
		stats = append(stats, &s)
	}
	var texts []string
	for _, u := range Unused(set, patience, stats...) {
		texts = append(texts, u.String())
	}
	return strings.Join(texts, "\n")
}

func mustParse(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestARuleThatCountsNothingIsFound: a kind that nobody sends, responses that nobody sends, and patterns that match nothing.
func TestARuleThatCountsNothingIsFound(t *testing.T) {
	set := mustParse(t, usedRules)
	f := New(set, Options{NoStore: true})
	entry := func(kind, resource string, count uint32) {
		f.Entry(&schemas.Entry{Time: 1e18, Kind: kind, ID: "192.0.2.1", Resource: resource, Count: count})
	}
	if got := unusedTexts(set, 10); strings.Count(got, "\n") != 3 {
		t.Errorf("before anything came: got\n%s\nwant all four rules", got)
	}
	entry("ip", "GET /x", 1)
	entry("ip_route", "GET /x\n", 1)
	if got := unusedTexts(set, 1, f); !strings.Contains(got, "rule search: no resource of 1 requests") {
		t.Errorf("after one request, without patience: got\n%s\nwant the patterns of rule search", got)
	}
	entry("ip_route", "GET /x\n", 8)
	got := unusedTexts(set, 10, f)
	want := `rule per-key counts callers of kind "key", and none have come: kinds are those of a server's Callers, or of --callers and mappings
rule errors counts responses of callers of kind "ip", and none have come: servers send them with record.Options{Responses: true}, ingest unless its mapping has responses: false; kinds are those of a server's Callers, or of --callers and mappings`
	if got != want {
		t.Errorf("after 9 requests: got\n%s\nwant\n%s", got, want)
	}
	entry("ip_route", "GET /find", 1)
	want += "\n" + `rule search: no resource of 10 requests of callers of kind "ip_route" matches GET /search*, POST /never: one is "GET /x\n"`
	if got := unusedTexts(set, 10, f); got != want {
		t.Errorf("after 10 requests: got\n%s\nwant\n%s", got, want)
	}
	entry("ip_route", "GET /search/a", 1)
	entry("ip_route", "POST /never", 1)
	entry("key", "", 1)
	f.Entry(&schemas.Entry{Time: 1e18, Kind: "ip", ID: "192.0.2.1", Count: 1, Response: true, Status: 200})
	if got := unusedTexts(set, 10, f); got != "" {
		t.Errorf("after all had come: got\n%s\nwant nothing", got)
	}
}

// TestRulesOfSeveralPartitionsAreOne: a caller is counted in one partition, and what matters is that it is counted in one.
func TestRulesOfSeveralPartitionsAreOne(t *testing.T) {
	set := mustParse(t, "version: 1\nrules: [{name: r, callers: ip_route, limit: 9, window: 1m, match: {resource: [/a, /b]}}]")
	var folds []*Fold
	for _, path := range []string{"GET /a", "GET /b"} {
		f := New(set, Options{NoStore: true})
		f.Entry(&schemas.Entry{Time: 1e18, Kind: "ip_route", ID: "x", Resource: path, Count: 50})
		folds = append(folds, f)
	}
	for i, f := range folds {
		if got := unusedTexts(set, 10, f); !strings.Contains(got, []string{"matches /b: one is \"GET /a\"", "matches /a: one is"}[i]) {
			t.Errorf("partition %d alone: got %q", i, got)
		}
	}
	if got := unusedTexts(set, 10, folds...); got != "" {
		t.Errorf("both: got %q, want nothing", got)
	}
}

// TestAPartitionMayCountByOtherRules: a rule is found by its name, if the partition has it.
func TestAPartitionMayCountByOtherRules(t *testing.T) {
	const a, b = "{name: a, callers: ip, limit: 9, window: 1m}", "{name: b, callers: key, limit: 9, window: 1m}"
	set, f := mustParse(t, "version: 1\nrules: ["+a+", "+b+"]"), New(mustParse(t, "version: 1\nrules: ["+b+", "+a+"]"), Options{NoStore: true})
	for _, kind := range []string{"ip", "key"} {
		f.Entry(&schemas.Entry{Time: 1e18, Kind: kind, ID: "x", Count: 50})
	}
	if got := unusedTexts(set, 10, f); got != "" {
		t.Errorf("the other order: got %q, want nothing", got)
	}
	f = New(mustParse(t, "version: 1\nrules: ["+a+"]"), Options{NoStore: true})
	f.Entry(&schemas.Entry{Time: 1e18, Kind: "ip", ID: "x", Count: 50})
	if got := unusedTexts(set, 10, f); !strings.HasPrefix(got, "rule b ") {
		t.Errorf("without rule b: got %q, want rule b", got)
	}
}

// TestAReloadKeepsWhatARuleHasSeen, unless it counts something else from now on.
func TestAReloadKeepsWhatARuleHasSeen(t *testing.T) {
	text := "version: 1\nrules: [{name: r, callers: ip_route, limit: %d, window: 1m, match: {resource: %s}}]"
	set := mustParse(t, fmt.Sprintf(text, 5, "/a"))
	f := New(set, Options{NoStore: true})
	f.Entry(&schemas.Entry{Time: 1e18, Kind: "ip_route", ID: "x", Resource: "GET /a", Count: 50})
	same := mustParse(t, fmt.Sprintf(text, 6, "/a"))
	f.SetRules(same)
	if got := unusedTexts(same, 10, f); got != "" || f.Stats().Rules[0].Requests != 50 {
		t.Errorf("another limit: got %q and %d requests, want nothing and 50", got, f.Stats().Rules[0].Requests)
	}
	other := mustParse(t, fmt.Sprintf(text, 6, "/b"))
	if got := unusedTexts(other, 10, f); !strings.Contains(got, "none have come") {
		t.Errorf("rules that the fold does not count by yet: got %q", got)
	}
	f.SetRules(other)
	f.Entry(&schemas.Entry{Time: 1e18, Kind: "ip_route", ID: "x", Resource: "GET /a", Count: 10})
	if got := unusedTexts(other, 10, f); !strings.Contains(got, `no resource of 10 requests of callers of kind "ip_route" matches /b`) {
		t.Errorf("another pattern: got %q", got)
	}
}

// TestARuleThatLacksArrivalsSaysSo: what servers and logs must send so that a rule can follow requests, and what happens otherwise.
func TestARuleThatLacksArrivalsSaysSo(t *testing.T) {
	const (
		holds    = "{name: r, callers: key, limit: 9, window: 1m, measure: cost, charge: arrival, hold: {estimate: 1}, match: {resource: /v1*}}"
		arrives  = "{name: r, callers: key, limit: 9, window: 1m, measure: cost, charge: arrival, match: {resource: /v1*}}"
		inFlight = "{name: r, callers: key, limit: 9000, measure: in_flight, match: {resource: /v1*}}"
		ends     = "{name: r, callers: key, limit: 9, window: 1m, measure: cost, match: {resource: /v1*}}"

		none     = `rule r: 0 arrivals of callers of kind "key" have come with 40 responses, so nothing is held for requests in flight: servers report a request when it arrives, a log must have a line then`
		notTimed = `rule r: 4 of 40 responses of callers of kind "key" do not say when their requests arrived, so their costs count when they end%s: ` +
			`servers say it with record.Options{Responses: true, Holds: true}, a log with a duration`
		noTimes = `rule r: 40 of 40 responses of callers of kind "key" do not say when their requests arrived, so %s: ` +
			`servers say it with record.Options{Responses: true, Holds: true}, a log with a duration`
	)
	type sent struct{ late, requests, untimed, unfollowed, lost, blocked int }
	for _, test := range []struct {
		name, rule string
		sent       sent
		want       string // "" is nothing
	}{
		{"all is well", holds, sent{requests: 40}, ""},
		{"one in flight is well", inFlight, sent{requests: 40}, ""},
		{"some are late, and some do not say it", holds, sent{requests: 50, late: 4, untimed: 4, lost: 4}, ""},
		{"no arrivals", holds, sent{requests: 40, lost: 40}, none},
		{"no arrivals, but few responses", holds, sent{requests: 19, lost: 19}, ""},
		{"no arrivals, and no rule needs them", arrives, sent{requests: 40, lost: 40}, ""},
		{"no arrivals in flight", inFlight, sent{requests: 40, lost: 37}, strings.NewReplacer("0 arr", "3 arr", "nothing is held for requests in flight", "no request counts as in flight").Replace(none)},
		{"arrivals that gates have blocked are none", holds, sent{requests: 40, lost: 40, blocked: 40}, none},
		{"a server or a log that says neither", holds, sent{requests: 40, untimed: 40, unfollowed: 40}, fmt.Sprintf(noTimes, "nothing is held for requests in flight")},
		{"a server or a log that says neither in flight", inFlight, sent{requests: 40, untimed: 40, unfollowed: 40}, fmt.Sprintf(noTimes, "no request counts as in flight")},
		{"responses do not say it", holds, sent{requests: 40, untimed: 4}, fmt.Sprintf(notTimed, ", and what they held stays held until their window is over")},
		{"responses do not say it, and nothing is held", arrives, sent{requests: 40, untimed: 4}, fmt.Sprintf(notTimed, "")},
		{"responses in flight do not say it", inFlight, sent{requests: 40, untimed: 4}, strings.Replace(fmt.Sprintf(notTimed, ""), "their costs count when they end", "they stay in flight until they are forgotten", 1)},
		{"a log that is written at the end", holds, sent{requests: 40, late: 40}, `rule r: 40 of 40 arrivals of callers of kind "key" have come more than 2s late, as from a log that is written when requests end, ` +
			`so nothing is held for requests in flight while they run: servers report a request when it arrives, a log must have a line then`},
		{"nobody asks", ends, sent{requests: 40, late: 40, untimed: 40}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := mustParse(t, "version: 1\nrules: ["+test.rule+"]")
			f := New(set, Options{NoStore: true})
			at := int64(1e18)
			for i := range test.sent.requests {
				at += int64(time.Minute)
				e := schemas.Entry{Time: at, Kind: "key", ID: "x", Resource: "/v1/chat", Count: 1, Arrived: schemas.Tick(at)}
				if i < test.sent.unfollowed {
					e.Arrived = 0
				}
				f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "x", Resource: "/other", Count: 100}) // another resource says nothing
				if i < test.sent.blocked {
					blocked := e
					blocked.Blocked = true
					f.Entry(&blocked)
				}
				if i < test.sent.late {
					f.Entry(&schemas.Entry{Time: at + int64(2*time.Second) + 1, Kind: "ip", ID: "y", Count: 1})
				} else {
					f.Entry(&schemas.Entry{Time: at + int64(2*time.Second), Kind: "ip", ID: "y", Count: 1})
				}
				if i >= test.sent.lost {
					f.Entry(&e)
				}
				e.Response, e.Status, e.Cost, e.Arrived = true, 200, 1, schemas.Tick(at)
				if i < test.sent.untimed {
					e.Arrived = 0
				}
				e.Time += int64(5 * time.Second)
				f.Entry(&e)
			}
			if got := unusedTexts(set, 1000, f); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestAPatternAndArrivalsMayBothBeMissing: two warnings, each with its reason. What other rules counted before a reload says nothing.
func TestAPatternAndArrivalsMayBothBeMissing(t *testing.T) {
	text := "version: 1\nrules: [{name: r, callers: key, limit: 9, window: 1m, measure: cost, charge: arrival, match: {resource: [/a, /b]}%s}]"
	before, after := mustParse(t, fmt.Sprintf(text, "")), mustParse(t, fmt.Sprintf(text, ", hold: {estimate: 3}"))
	f := New(before, Options{NoStore: true})
	end := schemas.Entry{Time: 1e18, Kind: "key", ID: "x", Resource: "/a", Count: 30, Response: true, Status: 200, Arrived: 30 * schemas.Tick(1e18)}
	f.Entry(&end)
	f.SetRules(after)
	s := f.Stats()
	if list := Unused(after, 1, &s); len(list) != 1 || list[0].Reason() != UnusedPattern {
		t.Errorf("after a reload: got %v, want only the pattern", list)
	}
	f.Entry(&end)
	s = f.Stats()
	if list := Unused(after, 1, &s); len(list) != 2 || list[0].Reason() != UnusedPattern || list[1].Reason() != UnusedArrivals {
		t.Errorf("got %v, want the pattern and the arrivals", list)
	}
	if list := Unused(mustParse(t, fmt.Sprintf(text, "")), 1); len(list) != 1 || list[0].Reason() != UnusedKind {
		t.Errorf("without requests: got %v, want the kind", list)
	}
}

package fold

import (
	"fmt"
	"strings"
	"testing"

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

package rulesdiff

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// file parses rules that are written one a line, in YAML's flow style.
func file(t testing.TB, lines ...string) *rules.Set {
	t.Helper()
	text := "version: 1\nrules:\n"
	for _, l := range lines {
		text += "  - {" + l + "}\n"
	}
	set, err := rules.Parse("rules", []byte(text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return set
}

const perKey = "name: per-key, callers: key, "

// TestEachFieldOfARuleHasItsDifference: each thing that a person can change in a file is said, with what it was and what it is, and
// so is whether counts stay.
func TestEachFieldOfARuleHasItsDifference(t *testing.T) {
	field := func(name, before, after string) []apiv1.FieldDiff {
		return []apiv1.FieldDiff{{Field: name, Before: before, After: after}}
	}
	override := func(of, before, after string) []apiv1.OverrideDiff {
		return []apiv1.OverrideDiff{{Of: of, Before: before, After: after}}
	}
	tests := map[string]struct {
		before, after string
		counts        string
		fields        []apiv1.FieldDiff
		overrides     []apiv1.OverrideDiff
	}{
		"limit":     {"limit: 10, window: 1m", "limit: 20, window: 1m", apiv1.CountsKept, field("limit", "10", "20"), nil},
		"window":    {"limit: 10, window: 1m", "limit: 10, window: 1h", apiv1.CountsStart, field("window", "1m sliding", "1h sliding"), nil},
		"algorithm": {"limit: 10, window: 1m", "limit: 10, window: 1m, algorithm: fixed", apiv1.CountsStart, field("window", "1m sliding", "1m fixed"), nil},
		"slots":     {"limit: 10, window: 1m", "limit: 10, window: 1m, slots: 6", apiv1.CountsStart, field("window", "1m sliding", "1m sliding, 6 slots"), nil},
		"burst":     {"limit: 10, window: 1m, algorithm: gcra", "limit: 10, window: 1m, algorithm: gcra, burst: 5", apiv1.CountsKept, field("window", "1m gcra", "1m gcra, burst 5"), nil},
		"measure":   {"limit: 10, window: 1m", "limit: 10, window: 1m, measure: cost", apiv1.CountsStart, field("measure", "requests", "cost"), nil},
		"charge": {
			"limit: 10, window: 1m, measure: cost", "limit: 10, window: 1m, measure: cost, charge: arrival", apiv1.CountsStart, field("charge", "", "arrival"), nil,
		},
		"hold": {
			"limit: 10, window: 1m, measure: cost, charge: arrival, hold: {estimate: 7, longest: 1m}",
			"limit: 10, window: 1m, measure: cost, charge: arrival, hold: {estimate: 7, longest: 2m}", apiv1.CountsKept,
			field("hold", "7 each, margin 2, 1m at most", "7 each, margin 2, 2m at most"), nil,
		},
		"two held resources, and one with a comma": {
			"limit: 10, window: 1m, measure: cost, charge: arrival, hold: {estimate: 7, resources: {/a: 2, /b: 3}}",
			"limit: 10, window: 1m, measure: cost, charge: arrival, hold: {estimate: 7, resources: {'/a, 3 for /b': 2}}", apiv1.CountsKept,
			field("hold", `7 each, 2 for "/a", 3 for "/b", margin 2, 10m at most`, `7 each, 2 for "/a, 3 for /b", margin 2, 10m at most`), nil,
		},
		"count_blocked":  {"limit: 10, window: 1m", "limit: 10, window: 1m, count_blocked: true", apiv1.CountsStart, field("count_blocked", "false", "true"), nil},
		"match":          {"limit: 10, window: 1m", "limit: 10, window: 1m, match: {resource: /search}", apiv1.CountsStart, field("match", "", "/search"), nil},
		"close_for":      {"limit: 10, window: 1m", "limit: 10, window: 1m, close_for: 30s", apiv1.CountsKept, field("close_for", "", "30s"), nil},
		"mode":           {"limit: 10, window: 1m", "limit: 10, window: 1m, mode: shadow", apiv1.CountsKept, field("mode", "enforce", "shadow"), nil},
		"predict":        {"limit: 10, window: 1m, predict: off", "limit: 10, window: 1m", apiv1.CountsKept, field("predict", "off", "shares"), nil},
		"warn":           {"limit: 10, window: 1m", "limit: 10, window: 1m, warn: [0.5, 0.8]", apiv1.CountsKept, field("warn", "", "0.5, 0.8"), nil},
		"pattern of ids": {"limit: 10, window: 1m", "callers: \"key:free-*\", limit: 10, window: 1m", apiv1.CountsOfMatching, field("callers", "key", "key:free-*"), nil},
		"a pattern that goes away": {
			"callers: \"key:free-*\", limit: 10, window: 1m", "limit: 10, window: 1m", apiv1.CountsKept, field("callers", "key:free-*", "key"), nil,
		},
		"kind": {"limit: 10, window: 1m", "callers: ip, limit: 10, window: 1m", apiv1.CountsStart, field("callers", "key", "ip"), nil},
		"escalate": {
			"limit: 10, window: 1m, close_for: 30s", "limit: 10, window: 1m, close_for: 30s, escalate: {factor: 2, max: 1h, forget: 1d}", apiv1.CountsKept,
			field("escalate", "", "factor 2, max 1h, forget 1d"), nil,
		},
		"how long an escalation remembers": {
			"limit: 10, window: 1m, close_for: 30s, escalate: {factor: 2, max: 1h, forget: 1d}",
			"limit: 10, window: 1m, close_for: 30s, escalate: {factor: 2, max: 1h, forget: 2d}", apiv1.CountsKept,
			field("escalate", "factor 2, max 1h, forget 1d", "factor 2, max 1h, forget 2d"), nil,
		},
		"capacity": {"capacity: 5000, window: 1s", "capacity: 6000, window: 1s", apiv1.CountsKept, field("capacity", "5000", "6000"), nil},
		"protect":  {"capacity: 5000, window: 1s", "capacity: 5000, window: 1s, protect: 1.5%", apiv1.CountsKept, field("protect", "0.1%", "1.5%"), nil},
		"a weight": {
			"capacity: 5000, window: 1s, weights: {vip: 4}", "capacity: 5000, window: 1s, weights: {vip: 0.5}", apiv1.CountsKept, nil,
			override("vip", "weight 4", "weight 0.5"),
		},
		"a capacity in place of a limit": {
			"limit: 5000, window: 1s, predict: off, close_for: 250ms, overrides: {vip: 99}", "capacity: 5000, window: 1s, weights: {vip: 4}", apiv1.CountsStart,
			slices.Concat(field("limit", "5000", ""), field("capacity", "", "5000"), field("protect", "", "0.1%"), field("window", "1s sliding", "1s pool")),
			override("vip", "99", "weight 4"),
		},
		"two patterns, and one with a comma": {
			"limit: 10, window: 1m, match: {resource: [/a, /b]}", "limit: 10, window: 1m, match: {resource: [\"/a, /b\"]}", apiv1.CountsStart,
			field("match", `["/a" "/b"] []`, `["/a, /b"] []`), nil,
		},
		"an override more":      {"limit: 10, window: 1m", "limit: 10, window: 1m, overrides: {vip: 99}", apiv1.CountsKept, nil, override("vip", "", "99")},
		"an override less":      {"limit: 10, window: 1m, overrides: {vip: 99}", "limit: 10, window: 1m", apiv1.CountsKept, nil, override("vip", "99", "")},
		"an override unlimited": {"limit: 10, window: 1m, overrides: {vip: 99}", "limit: 10, window: 1m, overrides: {vip: unlimited}", apiv1.CountsKept, nil, override("vip", "99", "unlimited")},
		"a network": {
			"callers: ip, limit: 10, window: 1m, overrides: {198.51.100.0/24: 5}", "callers: ip, limit: 10, window: 1m, overrides: {198.51.100.0/24: 6}", apiv1.CountsKept,
			nil, override("198.51.100.0/24", "5", "6"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := Compare(version(t, test.before), version(t, test.after))
			want := apiv1.RuleDiff{Rule: "per-key", Change: apiv1.DiffChanged, Counts: test.counts, Fields: test.fields, Overrides: test.overrides}
			if d.Same || len(d.Rules) != 1 || !reflect.DeepEqual(d.Rules[0], want) {
				t.Errorf("got %+v\nwant %+v", d, want)
			}
		})
	}
}

// version returns a set of one rule; its callers are of kind key unless the text says which.
func version(t *testing.T, text string) *rules.Set {
	t.Helper()
	if strings.HasPrefix(text, "callers: ") {
		return file(t, "name: per-key, "+text)
	}
	return file(t, perKey+text)
}

// TestAFileOfManyChanges: rules that come, go and move, in the order in which a person reads the new file.
func TestAFileOfManyChanges(t *testing.T) {
	before := file(t, "name: a, callers: key, limit: 1, window: 1m", "name: b, callers: key, limit: 1, window: 1h", "name: old, callers: ip, limit: 5, window: 1m, overrides: {203.0.113.9: 7}")
	after := file(t, "name: b, callers: key, limit: 1, window: 1h", "name: new, callers: key, limit: 9, window: 1s", "name: a, callers: key, limit: 2, window: 1m")
	d := Compare(before, after)
	var got []string
	for _, r := range d.Rules {
		got = append(got, r.Change+" "+r.Rule+" "+r.Counts)
	}
	if want := []string{"added new start_at_zero", "changed a kept", "removed old dropped"}; !slices.Equal(got, want) || !d.Reordered || d.Unchanged != 1 {
		t.Errorf("got %v of %+v, want %v", got, d, want)
	}
	if o := d.Rules[2].Overrides; len(o) != 1 || o[0] != (apiv1.OverrideDiff{Of: "203.0.113.9", Before: "7"}) {
		t.Errorf("got %+v of the rule that is removed, want its override to be gone", o)
	}
	for _, f := range d.Rules[0].Fields {
		if f.Before != "" || f.After == "" {
			t.Errorf("a new rule: got %+v, want what it says", f)
		}
	}
}

// TestCommentsAndLayoutAreNoDifference, and neither is a default that is written out; only the order of rules is said.
func TestCommentsAndLayoutAreNoDifference(t *testing.T) {
	short := file(t, "name: a, callers: key, limit: 1, window: 60s", "name: b, callers: key, limit: 1, window: 1h")
	long, err := rules.Parse("rules", []byte("version: 1 # of Monday\nrules:\n- name: a\n  callers: key\n  window: 1m\n  limit: 1\n  mode: enforce\n- name: b\n  callers: key\n  limit: 1\n  window: 1h\n"))
	if err != nil {
		t.Fatal(err)
	}
	if d := Compare(short, long); !d.Same || len(d.Rules) != 0 || d.Reordered || d.Unchanged != 2 {
		t.Errorf("got %+v, want no difference", d)
	}
	turned := file(t, "name: b, callers: key, limit: 1, window: 1h", "name: a, callers: key, limit: 1, window: 1m")
	if d := Compare(short, turned); d.Same || len(d.Rules) != 0 || !d.Reordered {
		t.Errorf("got %+v, want another order only", d)
	}
}

// TestNothingChangesUnsaid: of 3,000 pairs of random files, exactly those have no difference that have one id. Each difference is
// there the other way round too, with before and after changed over.
func TestNothingChangesUnsaid(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	seen := map[bool]int{}
	for range 3000 {
		before, after := randomFile(t, random), randomFile(t, random)
		d, back := Compare(before, after), Compare(after, before)
		silent := len(d.Rules) == 0 && !d.Reordered
		seen[silent]++
		if silent != (before.ID() == after.ID()) || d.Same != silent {
			t.Fatalf("%s\n%s\ngot %+v", before.Text(), after.Text(), d)
		}
		if len(d.Rules) != len(back.Rules) || d.Unchanged != back.Unchanged {
			t.Fatalf("got %+v one way and %+v the other way", d, back)
		}
		for _, r := range d.Rules {
			if r.Change == apiv1.DiffChanged && len(r.Fields)+len(r.Overrides) == 0 {
				t.Fatalf("%s\n%s\na rule is said to have changed, and not how: %+v", before.Text(), after.Text(), r)
			}
		}
	}
	if seen[true] < 50 || seen[false] < 50 {
		t.Fatalf("got %v, want files that differ and files that do not", seen)
	}
}

func randomFile(t *testing.T, random *rand.Rand) *rules.Set {
	t.Helper()
	pick := func(texts ...string) string { return texts[max(0, random.IntN(6*len(texts))-5*len(texts))] } // most often the first
	var lines []string
	for _, name := range []string{"a", "b"} {
		if random.IntN(8) == 0 && len(lines) > 0 {
			continue
		}
		lines = append(lines, fmt.Sprintf("name: %s, callers: %s, limit: %s, window: 1m%s%s", name, pick("key", "key", `"key:x*"`), pick("5", "5", "6"),
			pick("", "", ", mode: shadow", ", close_for: 2m", ", match: {resource: [/a, /b]}", `, match: {resource: ["/a, /b"]}`),
			pick("", "", ", overrides: {x1: 7}", ", overrides: {x1: unlimited}", ", warn: [0.5]")))
	}
	if random.IntN(5) == 0 {
		slices.Reverse(lines)
	}
	return file(t, lines...)
}

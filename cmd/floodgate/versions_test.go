package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/rules/rulesdiff"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// Two versions of a file: the newer one has another limit, another override, a new rule, and one rule less.
const (
	mondayRules = "version: 1 # of Monday\nrules:\n" +
		"  - {name: per-key, callers: key, limit: 10, window: 1m, overrides: {vip: 99, \"evil\\e[2J\": 7}}\n" +
		"  - {name: gone, callers: ip, limit: 5, window: 1m}\n  - {name: same, callers: ip, limit: 6, window: 1h}\n"
	tuesdayRules = "version: 1\nrules:\n" +
		"  - {name: per-key, callers: key, limit: 20, window: 1m, mode: shadow, overrides: {vip: unlimited}}\n" +
		"  - {name: same, callers: ip, limit: 6, window: 1h}\n  - {name: new, callers: ip, limit: 9, window: 1s}\n"
)

func rulesOfText(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// versionsAPI is an analyzer that counts by Tuesday's rules, and knows Monday's. hidden: it shows no texts.
func versionsAPI(t *testing.T, hidden bool) (url, monday, tuesday string) {
	t.Helper()
	before, after := rulesOfText(t, mondayRules), rulesOfText(t, tuesdayRules)
	d := rulesdiff.Compare(before, after)
	monday, tuesday = d.From, d.To
	sets := map[string]*rules.Set{"": after, monday: before, tuesday: after}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch set := sets[q.Get("version")]; {
		case r.URL.Path == "/v1/rules/diff" && sets[q.Get("from")] != nil && sets[q.Get("to")] != nil:
			give(w, 200, rulesdiff.Compare(sets[q.Get("from")], sets[q.Get("to")]))
		case r.URL.Path == "/v1/rules" && q.Get("version") == strings.Repeat("0", 16):
			give(w, 200, apiv1.Rules{ID: strings.Repeat("0", 16), Text: "forged\n", Problem: "the text is that of another id"})
		case r.URL.Path == "/v1/rules" && set != nil:
			answer := apiv1.Rules{ID: q.Get("version"), Text: string(set.Text())}
			if hidden {
				answer.Text = ""
			}
			give(w, 200, answer)
		case r.URL.Path == "/v1/rules/versions":
			give(w, 200, apiv1.RulesVersions{Versions: []apiv1.RulesVersion{
				{ID: tuesday, Time: apiNoon, Author: "host-b/9", Reason: "rules.yaml", InUse: true, Partitions: []int{0, 2}},
				{ID: monday, Time: apiAt(-86400), Author: "host\x1b-a/7", Reason: "/etc/rules.yaml"},
			}})
		default:
			refuse(w, apiv1.Problem{Title: "Not Found", Status: 404, Pointer: "version", Got: r.URL.RawQuery, Want: "the id of a version that an analyzer has noted"})
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, monday, tuesday
}

// ruleFile writes a file of rules, and returns its path.
func ruleFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRulesShow: what it prints can be put into the file as it is.
func TestRulesShow(t *testing.T) {
	url, monday, _ := versionsAPI(t, false)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the rules in force": {nil, tuesdayRules},
		"a version":          {[]string{monday}, mondayRules},
		"a file":             {[]string{ruleFile(t, mondayRules)}, mondayRules},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := runCommand(append([]string{"rules", "show", "--api", url}, test.args...)...)
			if err != nil || out != test.want {
				t.Errorf("got %v,\n%s", err, out)
			}
		})
	}
	out, err := runCommand("rules", "show", "--api", url, strings.Repeat("0", 16))
	if err == nil || command.ExitCode(err, io.Discard) != 1 || out != "forged\n" || !strings.Contains(err.Error(), "the text is that of another id") {
		t.Errorf("a note that cannot be believed: got %v, %q, want exit code 1", err, out)
	}
}

// TestRulesVersions: who has counted by what first, and who does now. Names of others are safe to print.
func TestRulesVersions(t *testing.T) {
	url, monday, tuesday := versionsAPI(t, false)
	out, err := runCommand("rules", "versions", "--api", url)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		tuesday + " | 2026-03-02 12:00:00", "host-b/9", "partitions 0, 2", monday + " | 2026-03-01 12:00:00", `host\x1b-a/7`, "/etc/rules.yaml", "\n2 versions. ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q in it", out, want)
		}
	}
}

// TestRulesDiff: it is the same whether the versions are ids, files, or one of each, and whoever reads it knows what happens.
func TestRulesDiff(t *testing.T) {
	url, monday, tuesday := versionsAPI(t, false)
	want := `from ` + monday + ` to ` + tuesday + `
per-key: changed; counts stay
  limit: 10 -> 20
  mode: enforce -> shadow
  override evil\x1b[2J: 7 -> none
  override vip: 99 -> unlimited
new: added; counts start from zero
  callers: none -> ip
  limit: none -> 9
  measure: none -> requests
  window: none -> 1s sliding
  mode: none -> enforce
  predict: none -> shares
gone: removed; its counts are dropped, and what it closed opens
  callers: ip -> none
  limit: 5 -> none
  measure: requests -> none
  window: 1m sliding -> none
  mode: enforce -> none
  predict: shares -> none
1 rule unchanged
`
	mondayFile, tuesdayFile := ruleFile(t, mondayRules), ruleFile(t, tuesdayRules)
	for _, args := range [][]string{{monday, tuesday}, {mondayFile, tuesdayFile}, {monday, tuesdayFile}, {mondayFile, tuesday}} {
		out, err := runCommand(append([]string{"rules", "diff", "--api", url}, args...)...)
		if err != nil || out != want {
			t.Errorf("%q: got %v,\n%s\nwant\n%s", args, err, out, want)
		}
	}
	for _, back := range []string{monday, mondayFile} { // one: from the rules in force to it
		out, err := runCommand("rules", "diff", "--api", url, back)
		if err != nil || !strings.HasPrefix(out, "from "+tuesday+" to "+monday+"\nper-key: changed; counts stay\n  limit: 20 -> 10\n") {
			t.Errorf("back to %q: got %v,\n%s", back, err, out)
		}
	}
	out, err := runCommand("rules", "diff", "--api", url, tuesdayFile)
	if err != nil || out != "from "+tuesday+" to "+tuesday+"\nno difference\n" {
		t.Errorf("with what is in force: got %v,\n%s", err, out)
	}
}

// TestRulesDiffInJSON is the API's own form, also where the API was not asked.
func TestRulesDiffInJSON(t *testing.T) {
	out, err := runCommand("rules", "diff", "--output", "json", ruleFile(t, mondayRules), ruleFile(t, tuesdayRules))
	var got apiv1.RulesDiff
	if err != nil || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("got %v, %s", err, out)
	}
	if want := rulesdiff.Compare(rulesOfText(t, mondayRules), rulesOfText(t, tuesdayRules)); !reflect.DeepEqual(&got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestRulesCommandsSayWhatIsWrong, each with the exit code of its kind of mistake.
func TestRulesCommandsSayWhatIsWrong(t *testing.T) {
	url, monday, _ := versionsAPI(t, true)
	file := ruleFile(t, mondayRules)
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"show of two":        {[]string{"show", "a", "b"}, 2, "rules show: got"},
		"versions of one":    {[]string{"versions", monday}, 2, "rules versions: got"},
		"diff of nothing":    {[]string{"diff"}, 2, "rules diff: got"},
		"diff of three":      {[]string{"diff", "a", "b", "c"}, 2, "rules diff: got"},
		"diff of one stdin":  {[]string{"diff", "-", "-"}, 2, "standard input twice"},
		"a missing file":     {[]string{"diff", file, file + ".missing"}, 1, "rules.yaml.missing"},
		"no rules in a file": {[]string{"show", ruleFile(t, "rules: 7\n")}, 1, "rules.yaml:1:"},
		"an unknown id":      {[]string{"show", strings.Repeat("f", 16)}, 1, "the id of a version that an analyzer has noted"},
		"half an id":         {[]string{"show", monday[:8]}, 1, "open rules: "},
		"a hidden text":      {[]string{"diff", monday, file}, 1, "hides texts from this token"},
		"a forged text":      {[]string{"diff", strings.Repeat("0", 16), file}, 1, "the text is that of another id"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := runCommand(append([]string{"rules", "--api", url}, test.args...)...)
			if err == nil || command.ExitCode(err, io.Discard) != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want exit code %d and %q", err, test.code, test.want)
			}
		})
	}
}

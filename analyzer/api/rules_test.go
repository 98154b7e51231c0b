package api

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

func (f *fakeTopic) Versions() (list []Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range slices.Backward(f.records) {
		if r.Action == schemas.ControlRules {
			r.Text = nil
			list = append(list, r)
		}
	}
	return list
}

func (f *fakeTopic) Modes() (list []Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range slices.Backward(f.records) {
		undone := slices.ContainsFunc(f.records, func(u Record) bool { return u.Action == schemas.ControlUndo && u.Target == r.ID })
		if r.Action == schemas.ControlMode && !undone {
			list = append(list, r)
		}
	}
	return list
}

func (f *fakeTopic) Version(id uint64) (Record, bool) {
	return f.find(func(r *Record) bool { return r.Action == schemas.ControlRules && r.RulesID == id })
}

// note adds a note of rules, as an analyzer writes it.
func (w *world) note(id uint64, text string) string {
	w.t.Helper()
	c := schemas.Control{
		ID: schemas.ControlID{1}, Time: time.Unix(1000, 0).UnixNano(), Author: "host/1", Reason: "/etc/floodgate/rules.yaml",
		Action: schemas.ControlRules, RulesID: id, Text: []byte(text),
	}
	if _, err := w.topic.Append(w.t.Context(), &c); err != nil {
		w.t.Fatal(err)
	}
	return hexID(id)
}

// olderRules differ from worldRules: one limit, one rule that is gone, one override.
const olderRules = `
version: 1
rules:
  - {name: per-key, callers: "key", limit: 5, window: 1m, overrides: {secret-customer: 7}}
  - {name: per-ip, callers: "ip", limit: 100, window: 1m}
`

func parsed(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestVersionsSayWhoCountsByThem: analyzers note what they take over, and heartbeats say by what each partition is counted. A
// partition that nobody has heard of lately says nothing.
func TestVersionsSayWhoCountsByThem(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0), nil)
	old := parsed(t, olderRules).ID()
	first := w.note(old, olderRules)
	second := w.note(w.set.ID(), worldRules)
	for p, id := range []uint64{w.set.ID(), old, old, old} {
		w.board.beat(p, "")
		w.board.rules(p, id)
	}
	w.board.silence(3)
	var list apiv1.RulesVersions
	a := n.get("/v1/rules/versions")
	a.into(t, &list)
	if len(list.Versions) != 2 || list.Versions[0].ID != second || list.Versions[1].ID != first {
		t.Fatalf("got %+v, want the newest first", list.Versions)
	}
	v := list.Versions[1]
	if v.InUse || !slices.Equal(v.Partitions, []int{1, 2}) || v.Author != "host/1" || v.Reason != "/etc/floodgate/rules.yaml" || !v.Time.Equal(time.Unix(1000, 0)) {
		t.Errorf("got %+v", v)
	}
	if v := list.Versions[0]; !v.InUse || !slices.Equal(v.Partitions, []int{0}) {
		t.Errorf("got %+v, want it to be in use here", v)
	}
}

// rules makes a partition's newest heartbeat say by what it is counted.
func (b *fakeBoard) rules(p int, id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.beats[p]
	h.RulesID, h.RulesFrom = id, int64(p)*100
	b.beats[p] = h
}

// TestAPartitionThatHasCountedNothingHasNoLogTime, instead of one in the year 1677: for what owners say, and what their heartbeats say.
func TestAPartitionThatHasCountedNothingHasNoLogTime(t *testing.T) {
	if v := viewOf(&schemas.Heartbeat{LogTime: math.MinInt64, Time: 1}, false); !v.LogTime.IsZero() || v.Beat.IsZero() {
		t.Errorf("a heartbeat: got %+v, want no log time", v)
	}
	if v := atOf(analyzer.At{Offset: 3}, math.MinInt64); !v.LogTime.IsZero() || v.Offset != 3 {
		t.Errorf("an owner: got %+v, want no log time", v)
	}
}

// TestStatusSaysByWhatEachPartitionIsCounted, and since which offset.
func TestStatusSaysByWhatEachPartitionIsCounted(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0), nil)
	for p := range 4 {
		w.board.beat(p, "192.0.2.7:9096")
		w.board.rules(p, w.set.ID())
	}
	var s apiv1.Status
	n.get("/v1/status").into(t, &s)
	if !s.RulesAgree || s.Partitions[3].RulesID != hexID(w.set.ID()) || s.Partitions[3].RulesFrom != 300 || s.Partitions[3].API != "192.0.2.7:9096" {
		t.Errorf("got %+v", s.Partitions[3])
	}
	w.board.rules(2, 77)
	n.get("/v1/status").into(t, &s)
	if s.RulesAgree {
		t.Errorf("got %+v, want them to differ", s.Partitions)
	}
	w.board.silence(2)
	n.get("/v1/status").into(t, &s)
	if !s.RulesAgree {
		t.Errorf("got %+v, want a partition without an owner to count for nothing", s.Partitions)
	}
}

// TestShowAndDiffOfVersions: what was noted can be shown and compared, in both directions; without an id it is what is in use.
func TestShowAndDiffOfVersions(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0), nil)
	old := w.note(parsed(t, olderRules).ID(), olderRules)
	var shown apiv1.Rules
	n.get("/v1/rules?version="+old).into(t, &shown)
	if shown.ID != old || shown.Text != olderRules || shown.Problem != "" || len(shown.Rules) != 2 {
		t.Errorf("got %+v", shown)
	}
	var d apiv1.RulesDiff
	n.get("/v1/rules/diff?from="+old).into(t, &d)
	if d.From != old || d.To != hexID(w.set.ID()) || d.Unchanged != 1 || len(d.Rules) != 2 || d.Rules[0].Change != apiv1.DiffChanged || d.Rules[1].Change != apiv1.DiffAdded {
		t.Fatalf("got %+v", d)
	}
	if o := d.Rules[0].Overrides; len(o) != 1 || o[0].Of != "secret-customer" || o[0].Before != "7" || o[0].After != "" {
		t.Errorf("got %+v, want the override that goes away", o)
	}
	n.get("/v1/rules/diff?to="+old).into(t, &d)
	if d.To != old || d.Rules[1].Change != apiv1.DiffRemoved || d.Rules[0].Fields[0] != (apiv1.FieldDiff{Field: "limit", Before: "10", After: "5"}) {
		t.Errorf("the other way: got %+v", d)
	}
	n.get("/v1/rules/diff").into(t, &d)
	if !d.Same || len(d.Rules) != 0 {
		t.Errorf("with itself: got %+v", d)
	}
}

// TestNotesThatCannotBeBelieved: a writer of the control topic can write anything there. What cannot be an older version is
// shown with what is wrong with it, and compared with nothing.
func TestNotesThatCannotBeBelieved(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0), nil)
	for name, test := range map[string]struct{ id, problem string }{
		"another text":   {w.note(1, olderRules), "the text is that of the rules"},
		"no rules":       {w.note(2, "rules: [\x1b[2J"), "version 0000000000000002:"},
		"a long file":    {w.note(3, ""), "more than 524288 bytes"},
		"another format": {w.note(4, "version: 99\nrules: []\n"), "version"},
	} {
		t.Run(name, func(t *testing.T) {
			var shown apiv1.Rules
			n.get("/v1/rules?version="+test.id).into(t, &shown)
			if shown.ID != test.id || !strings.Contains(shown.Problem, test.problem) {
				t.Errorf("got %+v, want problem %q", shown, test.problem)
			}
			n.get("/v1/rules/diff?from="+test.id).want(t, http.StatusNotFound, `"pointer":"from"`)
			n.get("/v1/rules/diff?to="+test.id).want(t, http.StatusNotFound, `"pointer":"to"`)
		})
	}
}

// TestVersionsThatAreNotThere: each says which parameter is wrong.
func TestVersionsThatAreNotThere(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0), nil)
	for _, id := range []string{"", "0", "zz", "00000000000000AA", "+000000000000001", "-000000000000001", "0x00000000000001", "000000000000000000", "%00", "../../secret"} {
		n.get("/v1/rules?version="+id).want(t, http.StatusBadRequest, `"pointer":"version"`)
		n.get("/v1/rules/diff?from="+id).want(t, http.StatusBadRequest, `"pointer":"from"`)
	}
	n.get("/v1/rules/diff?to=00000000000000aa").want(t, http.StatusNotFound, `"pointer":"to"`)
	n.get("/v1/rules/diff?from=1&from=2").want(t, http.StatusBadRequest, `"pointer":"from"`)
	old := w.note(parsed(t, olderRules).ID(), olderRules)
	w.topic.loseText()
	n.get("/v1/rules?version="+old).want(t, http.StatusServiceUnavailable, "cannot be read")
	n.get("/v1/rules/diff?from="+old).want(t, http.StatusServiceUnavailable, "cannot be read")
}

// loseText makes Text fail, as it does while Kafka is away.
func (f *fakeTopic) loseText() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.textFails = errors.New("Kafka is away")
}

// TestADifferenceShowsNoIdsToReaders who must not see any. That overrides differ, and how, is no secret.
func TestADifferenceShowsNoIdsToReaders(t *testing.T) {
	w := newWorld(t)
	path, list := tokens(t, "ann:read", "bob:operate")
	n := w.node(w.analyzer(0), func(c *Config) { c.TokenFile, c.Redact = path, true })
	old := w.note(parsed(t, olderRules).ID(), olderRules)
	bad := w.note(5, "rules: [secret-customer")
	for _, path := range []string{"/v1/rules/diff?from=" + old, "/v1/rules?version=" + old, "/v1/rules?version=" + bad} {
		n.token = list[0]
		if a := n.get(path); a.status != http.StatusOK || strings.Contains(string(a.body), "secret-customer") {
			t.Errorf("%s: got %d %s", path, a.status, a.body)
		}
		n.token = list[1]
		n.get(path).want(t, http.StatusOK, "secret-customer")
	}
	n.token = list[0]
	n.get("/v1/rules/diff?from="+old).want(t, http.StatusOK, `"of":"redacted:","before":"7"`)
}

// TestARuleWithACapacity shows the capacity, and what is protected. Its weights stand where others have overrides.
func TestARuleWithACapacity(t *testing.T) {
	w := newWorld(t)
	const text = "version: 1\nrules:\n  - {name: pool, callers: key, capacity: 50000, window: 1s, weights: {acme: 4}}\n  - {name: slow, callers: key, limit: 7, window: 1m}\n"
	var v apiv1.RulesVerdict
	w.node(w.analyzer(0), nil).post("/v1/rules/check", body("rules", text)).into(t, &v)
	if len(v.Rules) != 2 {
		t.Fatalf("got %+v, want two rules", v)
	}
	if r := v.Rules[0]; r.Limit != 50_000 || r.Capacity != 50_000 || r.Protect != "0.1%" || !slices.Equal(r.Overrides, []string{"acme weight 4"}) {
		t.Errorf("got %+v", r)
	}
	if r := v.Rules[1]; r.Limit != 7 || r.Capacity != 0 || r.Protect != "" {
		t.Errorf("got %+v, want no capacity", r)
	}
}

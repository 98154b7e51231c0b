package remote

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/schemas"
)

// TestDecisionsShowsWhatComesAheadOfTime, in the table, in lines of changes, and in JSON. Decisions without any of it look as before.
func TestDecisionsShowsWhatComesAheadOfTime(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) int64 { return noon.Add(time.Duration(seconds * 1e9)).UnixNano() }
	plain := schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "a"}, Mode: schemas.ModeEnforce, CloseAt: at(0), Until: at(2),
		Evidence: schemas.Evidence{Count: 5, Limit: 5, Window: int64(time.Minute)},
	}
	early, both, shared := plain, plain, plain
	early.Early, early.Evidence.Expected, early.Evidence.Bound = true, 0.01, 0.06
	held := early
	held.Held, held.Evidence.InFlight, held.Evidence.Held, held.Evidence.Margin, held.Evidence.Learned = true, 14, 21400, 8900, 128
	both.Next = schemas.Span{CloseAt: at(60), Until: at(60.25), Early: true}
	shared.Until = shared.CloseAt
	shared.Share = &schemas.Share{From: at(1), Until: at(4), Period: int64(50 * time.Millisecond), Permits: 25, Demand: 100, DemandFrom: at(-1), DemandUntil: at(0)}
	for name, test := range map[string]struct {
		d        schemas.Decision
		text     string
		ahead    map[string]any
		unlisted []string
	}{
		"plain": {plain, "", nil, []string{"early", "hold", "next", "share", "overshoot_bound"}},
		"early": {early, "early: not counted yet", map[string]any{"early": true, "overshoot_expected": 0.01, "overshoot_bound": 0.06}, []string{"next", "share", "hold"}},
		"held": {held, "held: 21400 expected of 14 in flight, margin 8900", map[string]any{
			"early": true, "hold": map[string]any{"in_flight": 14, "held": 21400, "margin": 8900, "learned": 128},
		}, []string{"next", "share"}},
		"next": {both, "next 2026-03-02 12:01:00 for 250ms, early", map[string]any{
			"next": map[string]any{"close_at": "2026-03-02T12:01:00Z", "until": "2026-03-02T12:01:00.25Z", "early": true},
		}, []string{"early", "share"}},
		"share": {shared, "share: 25 each 50ms until 2026-03-02 12:00:04", map[string]any{"share": map[string]any{
			"from": "2026-03-02T12:00:01Z", "until": "2026-03-02T12:00:04Z", "period_seconds": 0.05, "permits": 25.0, "demand": 100.0,
			"demand_from": "2026-03-02T11:59:59Z", "demand_until": "2026-03-02T12:00:00Z",
		}}, []string{"early", "next"}},
	} {
		var table, line, asJSON bytes.Buffer
		if err := (decisionsView{out: &table}).all([]schemas.Decision{test.d}, nil, 1, 0, noon); err != nil {
			t.Fatal(err)
		}
		if err := (decisionsView{out: &line}).change(&board.Event{Kind: board.Closed, Decision: test.d}, noon); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(table.String(), "| "+test.text) || !strings.Contains(table.String(), "AHEAD OF TIME") || !strings.HasSuffix(line.String(), test.text+"\n") {
			t.Errorf("%s: got\n%s%swant %q", name, table.String(), line.String(), test.text)
		}
		if test.text == "" && strings.Contains(line.String(), ";") || test.d.Share != nil && strings.Contains(line.String(), "of 5 in") {
			t.Errorf("%s: got %q", name, line.String())
		}
		if err := (decisionsView{out: &asJSON, json: true}).encode("closed", test.d, noon); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(asJSON.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for key, want := range test.ahead {
			a, _ := json.Marshal(got[key])
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Errorf("%s: got %s %s, want %s", name, key, a, b)
			}
		}
		for _, key := range test.unlisted {
			if _, ok := got[key]; ok {
				t.Errorf("%s: got %s, want none", name, key)
			}
		}
	}
}

// TestWhatIsClosedByHandSaysSo: nothing was counted, so neither the table nor the line of a change shows counts of nothing.
func TestWhatIsClosedByHandSaysSo(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	d := schemas.Decision{
		Rule: schemas.ControlRule, Caller: schemas.Caller{Kind: "key", ID: "a"}, Mode: schemas.ModeEnforce,
		CloseAt: noon.UnixNano(), Until: noon.Add(time.Hour).UnixNano(), Evidence: schemas.Evidence{Window: int64(time.Hour)},
	}
	var table, line bytes.Buffer
	if err := (decisionsView{out: &table}).all([]schemas.Decision{d}, nil, 1, 0, noon); err != nil {
		t.Fatal(err)
	}
	if err := (decisionsView{out: &line}).change(&board.Event{Kind: board.Closed, Decision: d}, noon); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`\| key:a +\| by hand +\| enforce +\| +\| +\| +\| +\|\n`).MatchString(table.String()) || !strings.HasSuffix(table.String(), "1 closure in force, of 1 partition\n") {
		t.Errorf("got\n%s", table.String())
	}
	if want := "2026-03-02 12:00:00Z closed  key:a by hand until 2026-03-02 13:00:00\n"; line.String() != want {
		t.Errorf("got %q, want %q", line.String(), want)
	}
}
